"""The publisher's and auditor's page: from a table to a signed, verified and audited release.

workspace   every state of the policy as a file, undo, and the journal of what was tried
desk        the table, the policy as it stands, and what was counted
jobs        work in a process of its own, with progress, that can be cancelled
work        what these processes do: the functions that the command line calls
and a module for each step of the story, with its routes
"""
