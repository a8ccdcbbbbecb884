"""Suppression for skewed sensitive values (SK): publish an l-eligible part of a table that is not l-eligible.

`suppress` works on counts alone (rotation and SK's algorithms): `levels` (D-suppression in closed form),
`r_suppression` with its expected cost, `seats` (what an observer can make of the published counts).
"""
