"""What protection costs: suppression at the same l, and at equal measured risk, over all tables of one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.methods.suppression.suppress import Variant
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, decimal, sentence
from sfumato_papers.sk.bayes import Releases, releases

ASKED = 3
VALUES = 6
ALGORITHMS: dict[str, Variant] = {
    "R-suppression": "r-suppression",
    "rotation (proved)": "rotation",
    "Safe D": "safe-d",
    "Unsafe D": "unsafe-d",
}


@dataclass(frozen=True)
class Measured:
    """An algorithm with its parameter l: the risk, and what it suppresses on the average."""

    name: str
    ell: int
    found: Releases

    @property
    def keeps(self) -> bool:
        """Whether no posterior is above 1/l of the requirement."""
        return self.found.worst <= Fraction(1, ASKED)


def equal_risk(setting: Setting) -> Outcome:
    """All tables that are not 3-eligible: every algorithm with l = 3, and with a larger l where that is not enough."""
    records = 14 if setting.quick else 24
    tried = [(name, ell) for name in ALGORITHMS for ell in range(ASKED, VALUES + 1)]
    measured = []
    for done, (name, ell) in enumerate(tried, 1):
        measured.append(Measured(name, ell, releases(records, VALUES, ell, ALGORITHMS[name], ASKED)))
        setting.progress(done / len(tried))
    rows = tuple(
        {
            "algorithm": m.name,
            "l": m.ell,
            "largest posterior": float(m.found.worst),
            "guessed right": float(m.found.guessed),
            "mean suppression rate": float(m.found.rate),
        }
        for m in measured
    )
    points = tuple(Point(m.name, float(m.found.worst), float(m.found.rate)) for m in measured)
    return Outcome(
        (_same_requirement(measured), _equal_risk(measured), _guessing(measured)),
        rows,
        Chart(
            f"Mean suppression rate by the largest posterior, l from {ASKED} to {VALUES}. "
            + "; ".join(_course(measured, name) for name in ALGORITHMS)
            + ".",
            "largest posterior that a value is the most frequent one",
            "mean suppression rate",
            points,
            lines=False,
        ),
        f"all tables of {records} records and {VALUES} values that are not {ASKED}-eligible, equally likely",
    )


def _course(measured: Sequence[Measured], name: str) -> str:
    """What the chart shows of an algorithm, by l."""
    of = [m for m in measured if m.name == name]
    rates, worst = (", ".join(shares) for shares in zip(*map(_place, of), strict=True))
    return f"{name}: posteriors {worst}, rates {rates}"


def _place(m: Measured) -> tuple[str, str]:
    return f"{float(m.found.rate):.0%}", f"{float(m.found.worst):.2f}"


def _one(measured: Sequence[Measured], name: str, ell: int = ASKED) -> Measured:
    return next(m for m in measured if m.name == name and m.ell == ell)


def _told(m: Measured) -> str:
    return f"{m.name} {float(m.found.rate):.1%} (l = {m.ell})"


def _same_requirement(measured: Sequence[Measured]) -> Comparison:
    ours, safe, rotation = (_one(measured, name) for name in ("R-suppression", "Safe D", "rotation (proved)"))
    return sentence(
        "Sections 5 and 6: suppression with the same l",
        "R-suppression suppresses less than Safe D",
        f"{_told(ours)}, {_told(safe)}",
        ours.found.rate < safe.found.rate,
        proved=_told(rotation),
    )


def _equal_risk(measured: Sequence[Measured]) -> Comparison:
    """The cheapest parameter with which no posterior is above 1/3."""
    enough = {
        name: min((m for m in measured if m.name == name and m.keeps), key=lambda m: m.found.rate, default=None)
        for name in ALGORITHMS
    }
    ours, safe, rotation = enough["R-suppression"], enough["Safe D"], enough["rotation (proved)"]
    assert safe is not None
    assert rotation is not None
    least = min(m.found.worst for m in measured if m.name == "R-suppression")
    told = (
        f"R-suppression with no l up to {VALUES} (least posterior {decimal(least, 3)})" if ours is None else _told(ours)
    )
    return sentence(
        "The same at equal measured risk, no posterior above 1/3",
        "R-suppression suppresses less than Safe D",
        f"{told}, {_told(safe)}",
        ours is not None and ours.found.rate < safe.found.rate,
        proved=_told(rotation),
        because="its largest posteriors are "
        + ", ".join(f"{decimal(m.found.worst, 3)} (l = {m.ell})" for m in measured if m.name == "R-suppression"),
    )


def _guessing(measured: Sequence[Measured]) -> Comparison:
    ours, safe, rotation = (_one(measured, name) for name in ("R-suppression", "Safe D", "rotation (proved)"))
    return sentence(
        "Theorem 3 on the average of all releases",
        f"the most frequent value is guessed once in {ASKED} releases at most",
        f"guessed in {decimal(ours.found.guessed, 4)} of the releases of R-suppression",
        ours.found.guessed <= Fraction(1, ASKED),
        proved=f"{decimal(rotation.found.guessed, 4)} of rotation's, {decimal(safe.found.guessed, 4)} of Safe D's",
        because=f"{float(ours.found.above(Fraction(1, ASKED))):.0%} of the releases have a posterior above 1/{ASKED}",
    )
