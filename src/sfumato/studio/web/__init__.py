"""What both pages of the studio stand on. Nothing here knows a table or a release."""
