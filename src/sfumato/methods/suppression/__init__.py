"""Suppression for skewed sensitive values (SK): publish an l-eligible part of a table that is not l-eligible.

`suppress` works on counts alone (rotation and SK's algorithms): `levels` (D-suppression in closed form),
`r_suppression` with its expected cost, `seats` (what an observer can make of the published counts).
"""

from __future__ import annotations

from sfumato.methods.suppression.seats import Belief
from sfumato.methods.suppression.suppress import PROVED, VARIANTS, Suppression, Variant, costs, suppress

__all__ = ["PROVED", "VARIANTS", "Belief", "Suppression", "Variant", "costs", "suppress"]
