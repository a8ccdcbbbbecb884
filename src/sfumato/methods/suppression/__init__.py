"""Suppression for skewed sensitive values (SK): publish an l-eligible part of a table that is not l-eligible.

`suppress` works on counts alone: `levels` (D-suppression in closed form), `variants` (rotation and SK's algorithms),
`r_suppression` and its `expected` cost, `seats` and `beliefs` (what an observer can make of the published counts).
"""

from __future__ import annotations

from sfumato.methods.suppression.beliefs import Belief
from sfumato.methods.suppression.suppress import Suppression, costs, suppress
from sfumato.methods.suppression.variants import PROVED, VARIANTS, Variant

__all__ = ["PROVED", "VARIANTS", "Belief", "Suppression", "Variant", "costs", "suppress"]
