"""Where rows live: read, count, map, write. Engines know no method; they get a domain, a matrix and a key."""
