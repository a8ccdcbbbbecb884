"""The two columns of a release in buckets (Anatomy): two tables, joined by the number of a bucket."""

GROUP = "group"
"""The column with the number of a row's group, from 1; last in the data, first in the table of the groups."""
COUNT = "count"
"""The column of the table of the groups that says how many rows of the group have the value."""
