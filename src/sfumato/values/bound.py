"""What is required of one value, or of a set of values: by how much its odds may change."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Bound:
    """What is required of one value. `gamma` None: nothing. `rho1`, `rho2` where it was stated with them."""

    gamma: Fraction | None
    rho1: Fraction | None = None
    rho2: Fraction | None = None
    given: str = ""  # the background knowledge it is for


NO_BOUND = Bound(None)


def bound_keys(bound: Bound) -> dict[str, str | None]:
    """Return a bound for JSON."""
    fractions = {"gamma": bound.gamma, "rho1": bound.rho1, "rho2": bound.rho2}
    return {**{key: None if x is None else str(x) for key, x in fractions.items()}, "given": bound.given}


def read_bound(raw: dict[str, Any]) -> Bound:
    """Return what `bound_keys` gave."""
    gamma, rho1, rho2 = (None if raw[key] is None else Fraction(raw[key]) for key in ("gamma", "rho1", "rho2"))
    return Bound(gamma, rho1, rho2, raw["given"])
