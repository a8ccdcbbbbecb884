"""Full-domain generalization with entropy l-diversity: the baseline that AD compares randomization with (section V.B).

A joint table has one axis for each quasi-identifier and the sensitive attribute on the last: no rows are needed. It is
dense, so it is for a handful of quasi-identifiers.
"""
