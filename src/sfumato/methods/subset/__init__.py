"""Subset selection: each record publishes a set of values, the truth among them with a stated probability.

Pure mathematics: `design` has one gamma and its formulas, `deck` small public families of sets, named by a number, and
`graded` the optimum for two or three classes of gammas.
"""
