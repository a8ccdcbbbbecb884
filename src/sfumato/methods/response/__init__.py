"""Randomized response of quasi-identifiers and the sensitive attribute under a risk limit (AD).

Pure mathematics on a joint table of counts. `joint` has the table and products, `risks` what is limited, `problem` what
is minimised, `solver` the parameters, in the integers that are sampled; `guessing` the attacker whom no limit holds,
`estimating` estimates for domains that are too large. AD's p is called the *diagonal*.
"""
