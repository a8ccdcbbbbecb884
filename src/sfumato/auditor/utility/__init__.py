"""What analysts keep: estimates from a release beside the true table."""
