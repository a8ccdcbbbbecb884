"""How results are shown and written: as tables, files and pictures. It knows nothing of what they are about."""
