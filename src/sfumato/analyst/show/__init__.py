"""Answers for readers: files that other programs take, and pictures."""
