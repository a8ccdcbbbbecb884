"""Each attacker on a table and its release: what it needs is read from the evidence, what it finds are Findings."""
