"""Which way is better for a table: every method at the same requirement, measured alike."""
