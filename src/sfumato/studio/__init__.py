"""The studio: what a publisher, an analyst and an auditor do, on a page of their own machine.

web       what both pages stand on: who may ask (guard), how a server starts and ends, templates, pictures
desk      the publisher's and auditor's page: a table, its policy as files that can be undone, plans, jobs
analyst   the analyst's page: a release alone, nothing private is imported

It holds no logic of its own: every action calls what the command line calls. Needs the extra `sfumato[studio]`.
"""
