"""What everything is made of: columns, requirements, matrices, mechanisms, counts, random words. No files, no rows."""
