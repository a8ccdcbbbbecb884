"""The publisher's side after publishing: what a release is worth, and what it tells, measured with the true table."""
