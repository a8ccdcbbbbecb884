"""What a release proves by itself, re-checked; and what only an audit with the private table can show."""
