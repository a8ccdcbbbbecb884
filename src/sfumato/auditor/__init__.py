"""Attackers and measures: the truth against a release. `sfumato.auditor(table, release)` lets them loose.

finding      a measured risk beside what was promised
case         the table and its release as arrays
attacks      each attacker on a case; the modules beside it do the mathematics
auditing     all attackers that apply, and what analysts keep: an Audit (record)
"""
