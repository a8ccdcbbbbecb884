"""The public folder: manifest, README, data; and what it proves by itself."""
