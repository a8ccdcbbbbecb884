"""One machine: files are read, counted, shuffled and written in bounded memory."""
