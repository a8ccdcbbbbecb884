"""What an attacker found: a measured risk beside what was promised. A finding never says that a release is safe.

within the bound                    the guarantee is about this attacker, and the worst risk keeps it
above the bound                     the guarantee is about this attacker, and does not hold
not covered by the guarantee        it says nothing of this attacker; the risk is told with its size
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Direction = Literal["at most", "at least"]
Verdict = Literal["within the bound", "above the bound", "not covered by the guarantee"]

SHOWN = 10
"""The most exposed groups that a finding names."""
ROUNDING = 1e-12
"""Relative distance from the bound that floating point may be off, where it was not decided in fractions."""


@dataclass(frozen=True)
class Exposed:
    """Records that share a risk, in words."""

    who: str
    records: int
    risk: float


@dataclass(frozen=True)
class Finding:
    """One attack, its assumptions and its outcome.

    Risks are beliefs in a true value of a record (or success rates where it says so), between 0 and 1. `promised` is
    the bound of the guarantee on `worst`; None where it has none. `worst` and `mean` are exact, or as `measured` says;
    `interval` gives the confidence limits of `worst`, where it is from a simulation or a test.
    """

    attacker: str  # its name
    question: str  # what it tries to learn, in one sentence
    assumption: str  # what it knows, and believes beforehand
    measured: str  # what worst and mean are
    worst: float
    mean: float | None
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

    @property
    def verdict(self) -> Verdict:
        """How the outcome stands to the guarantee."""
        if self.promised is None:
            return "not covered by the guarantee"
        beyond = self.excess > ROUNDING * self.promised if self.broken is None else self.broken
        return "above the bound" if beyond else "within the bound"

    @property
    def excess(self) -> float:
        """How far the worst risk is beyond the bound, promised or stated; of a simulation the surer limit counts.

        A simulation is above the bound only if its whole confidence interval is.
        """
        bound = self.stated if self.promised is None else self.promised
        if bound is None:
            return 0.0
        if self.direction == "at least":
            return bound - (self.interval[1] if self.interval else self.worst)
        return (self.interval[0] if self.interval else self.worst) - bound

    def named(self, about: str) -> Finding:
        """Return the finding with what tells it from others of its attacker."""
        return replace(self, about=about)

    def with_remark(self, *sentences: str) -> Finding:
        """Return the finding with more to say, before what it says already."""
        return replace(self, remark=" ".join(text for text in (*sentences, self.remark) if text))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready values. Keys: docs/json.md."""
        return {**asdict(self), "exposed": [asdict(group) for group in self.exposed], "verdict": self.verdict}
