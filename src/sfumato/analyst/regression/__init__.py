"""Regression on a release: the fit that the true table would give, estimated from what was published.

problem, families         what is fitted: cells of equal rows, the states behind them, the family
crossproducts             products of a design with what is summed
blocks, equations         sums over cells, held in memory or streamed: the unbiased equations and their noise
buckets                   weights and noise of releases by buckets
solving, streaming        Newton's steps, levels that run off, passes over many rows
solution, variance        the root and its errors
score_intervals           intervals that hold for rare levels
likelihood                the other method, where it is sound
fit, result, notes        the answer, and what must be said beside it
comparison, diagnostics   tests, criteria, whether the model is right
effects                   standardised means and average slopes
"""
