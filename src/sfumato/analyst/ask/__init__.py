"""What is asked: a SELECT, its conditions, its cells."""
