"""Tables that other tools published."""
