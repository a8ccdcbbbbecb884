"""Sums over the published rows of a release, by DuckDB, here or on Spark."""
