"""Files and questions that nobody would write, made from those that somebody did: see `__main__`."""
