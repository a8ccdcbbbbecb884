"""Dealing rows to labels and to buckets, exactly and by chance."""
