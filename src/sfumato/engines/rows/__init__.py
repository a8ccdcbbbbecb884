"""Rows, batch by batch: encoded, selected, mapped; the same code on every engine."""
