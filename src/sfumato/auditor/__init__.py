"""Attackers and measures: the truth against a release. `sfumato.audit(table, release)` lets them loose.

evidence     the table and its release as arrays of codes
attackers    who they are, one file each
finding      a measured risk beside what was promised
audit        all attackers that apply, and what analysts keep: an Audit (record)
"""
