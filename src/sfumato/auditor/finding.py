"""What an attacker found: a measured risk beside what was promised. A finding never says that all is well.

`worst` is the largest risk (where beliefs must not fall: the smallest), with its own bound. Where bounds differ from
record to record, another one may come nearer to its bound, or be further beyond it: that one is `nearest`.

within the bound                    the guarantee is about this attacker, and the worst risk keeps it
above the bound                     the guarantee is about this attacker, and does not hold
not covered by the guarantee        it says nothing of this attacker; the risk is told with its size
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.chance import Tallies

Direction = Literal["at most", "at least"]
Verdict = Literal["within the bound", "above the bound", "not covered by the guarantee"]
Scale = Literal["risk", "chance"]

SHOWN = 10  # the most exposed groups that a finding names
ROUNDING = 1e-12
"""Relative distance from the bound that floating point may be off, where it was not decided in fractions."""
NOTHING_PROMISED = "Nothing was promised of it."
CLOSE = 1e-9  # two distances from bounds that differ by less are the same


@dataclass(frozen=True)
class Exposed:
    """Records that share a risk, in words."""

    who: str
    records: int
    risk: float


@dataclass(frozen=True)
class Nearest:
    """The risk that is nearest to its own bound, or furthest beyond it."""

    who: str
    risk: float
    bound: float
    prior: float | None = None  # what was believed beforehand


def named(columns: Iterable[str], values: Iterable[Any]) -> str:
    """Return a combination of values in words: the one way in which findings name records.

    >>> named(["sex", "region"], ["M", "East"])
    'sex = M, region = East'
    """
    return ", ".join(f"{column} = {value}" for column, value in zip(columns, values, strict=True))


def nearer(found: Nearest, worst: float, bound: float) -> Nearest | None:
    """Return it if it is nearer to its bound than the worst to its own, beyond rounding."""
    return found if found.risk - found.bound > worst - bound + CLOSE else None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One attack, its assumptions and its outcome.

    Risks are beliefs in a true value of a record (or success rates where it says so), between 0 and 1. `promised` is
    the bound of the guarantee on `worst`; None where it has none. `worst` and `mean` are exact, or as `measured` says;
    `interval` gives the confidence limits of `worst`, where it is from a simulation or a test. On the scale "chance"
    no risk is measured, but a count that chance alone must explain if the release was made as it says.
    """

    attacker: str  # its name
    question: str  # what it tries to learn, in one sentence
    assumption: str  # what it knows, and believes beforehand
    measured: str  # what worst and mean are
    worst: float
    mean: float | None = None
    records: int
    at_risk: int  # records whose risk is above the bound, promised or stated, or, without one, above `baseline`
    promised: float | None = None
    stated: float | None = None  # the bound against weaker attackers, where none is promised against this one
    baseline: float | None = None  # what the attacker would reach without the release
    direction: Direction = "at most"
    interval: tuple[float, float] | None = None
    exposed: tuple[Exposed, ...] = ()
    remark: str = ""
    broken: bool | None = None  # whether the bound is, where that was decided in fractions
    is_bound: bool = False  # whether `worst` is an upper bound of a risk that was not computed
    about: str = ""  # what tells it from other findings of the same attacker, such as an attribute set
    scale: Scale = "risk"
    who: str = ""  # which records or values have the worst risk
    nearest: Nearest | None = None  # None: the worst is the nearest
    why_bound: str = ""  # why the bound of the worst is what it is, where it is not that of the promise itself
    why_not_covered: str = ""  # why the guarantee says nothing of this attacker; see `reason`

    @property
    def verdict(self) -> Verdict:
        if self.promised is None:
            return "not covered by the guarantee"
        bound = self.promised if self.nearest is None else self.nearest.bound
        beyond = self.excess > ROUNDING * bound if self.broken is None else self.broken
        return "above the bound" if beyond else "within the bound"

    @property
    def reason(self) -> str:
        """Why the guarantee says nothing of this attacker; nothing where it does."""
        if self.promised is not None:
            return ""
        return self.why_not_covered or NOTHING_PROMISED

    @property
    def excess(self) -> float:
        """How far a risk is beyond its bound, promised or stated, at most; of a simulation the surer limit counts.

        A simulation is above the bound only if its whole confidence interval is.
        """
        bound = self.stated if self.promised is None else self.promised
        if bound is None:
            return 0.0
        if self.nearest is not None:
            beyond = self.nearest.risk - self.nearest.bound
            return -beyond if self.direction == "at least" else beyond
        if self.direction == "at least":
            return bound - (self.interval[1] if self.interval else self.worst)
        return (self.interval[0] if self.interval else self.worst) - bound

    def named(self, about: str) -> Finding:
        return replace(self, about=about)

    def with_remark(self, *sentences: str) -> Finding:
        """Return the finding with more to say, before what it says already."""
        return replace(self, remark=" ".join(text for text in (*sentences, self.remark) if text))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready values. Keys: docs/reference/json.md."""
        bounded = self.promised is not None or self.stated is not None
        return {
            **asdict(self),
            "exposed": [asdict(group) for group in self.exposed],
            "verdict": self.verdict,
            "why_not_covered": self.reason,
            "excess": self.excess if bounded else None,
            "interval": None if self.interval is None else list(self.interval),
        }


def most_exposed(
    risks: FloatArray, records: FloatArray | IntArray, told: Callable[[int], str], order: IntArray | None = None
) -> tuple[Exposed, ...]:
    """Return the records with the largest risks, larger groups first, or the first in another order; in words."""
    order = np.lexsort((-records, -settled(risks))) if order is None else order
    return tuple(Exposed(told(k), round(float(records[k])), float(risks[k])) for k in order[:SHOWN].tolist())


def largest_first(risks: FloatArray) -> IntArray:
    """Return the places of the largest, as many as are shown; of equal ones the first.

    >>> largest_first(np.array([0.1, 0.3, 0.2, 0.3])).tolist()
    [1, 3, 2, 0]
    """
    places = np.arange(risks.size)
    if risks.size > SHOWN:  # millions are not sorted for ten of them
        places = np.flatnonzero(risks >= np.partition(risks, -SHOWN)[-SHOWN])
    return np.asarray(places[np.argsort(-risks[places], kind="stable")][:SHOWN])


def held_to(bound: float | None, promised: bool) -> dict[str, Any]:
    """Return a bound as the finding has it: promised against this attacker, or stated against weaker ones."""
    return {"promised": bound, "stated": None} if promised else {"promised": None, "stated": bound}


def chance_finding(
    tallies: Tallies,
    records: int,
    level: float,
    attacker: str,
    about: str,
    question: str,
    assumption: str,
    stated_level: float,
    seen: str = "",
) -> Finding:
    """Return the count that chance alone explains least, of all together, beside what chance allows of it.

    `level` is their share of `stated_level`, which readers are told.
    """
    tails = tallies.log_tails
    beyond = int((tails < tallies.log_level(level)).sum())
    order = np.argsort(settled(tails), kind="stable")[: max(1, beyond)]
    shares, worst = tallies.hits / tallies.records, int(order[0])
    return Finding(
        attacker=attacker,
        question=question,
        assumption=assumption,
        measured=(
            "the share of records in the count that chance explains least; the bound is the largest share that chance "
            f"allows, but for {stated_level:g} of all releases"
        ),
        worst=float(shares[worst]),
        records=records,
        at_risk=records if beyond else 0,
        promised=tallies.allowed(worst, level),
        baseline=float(tallies.chance[worst]),
        exposed=most_exposed(shares, tallies.records, tallies.told, order),
        remark=f"{beyond:,} of {tallies.tests:,} counts are beyond chance. {seen}".strip(),
        broken=beyond > 0,
        about=about,
        scale="chance",
        who=tallies.told(worst),
    )


# --- which of equal ones comes first ----------------------------------------------------------------------------------


def settled(risks: FloatArray) -> FloatArray:
    """Return risks to twelve digits: which of equal ones is named first must not depend on the machine."""
    mantissa, exponent = np.frexp(risks)
    return np.asarray(np.round(np.ldexp(np.round(mantissa, 12), exponent), 12))


def largest_at(risks: FloatArray) -> int:
    """Return the place of the largest, the first of equal ones; of all dimensions together."""
    return int(settled(risks).argmax())
