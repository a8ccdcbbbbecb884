"""The command line: thin; it parses, calls the same functions as the library, and shows."""
