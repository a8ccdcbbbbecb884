"""Regression on a release: the fit that the true table would give, estimated from what was published.

problem      what is fitted: cells of equal rows, the states that hide behind them, the family
families     logistic, multinomial, linear, poisson
fit          solves the unbiased equations; coefficients, errors, intervals, notes
"""
