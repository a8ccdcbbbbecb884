"""Estimates from rows in buckets."""
