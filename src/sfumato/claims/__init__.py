"""What is promised, to whom, and on what it rests."""
