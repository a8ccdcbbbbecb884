"""An experiment: what a paper prints at one place, beside what comes out here, as published and in its proved version.

Curves of the papers' figures are lost in the scanned copies; there the sentences about them are what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from sfumato_papers.charts import Chart
from sfumato_papers.data import GENERATED, STANDS_IN, Data
from sfumato_papers.progress import Progress, no_progress

Paper = Literal["FG", "AD", "PI", "SDR", "SK"]
Verdict = Literal["equal", "within noise", "differs"]
VERDICTS: Mapping[Verdict, str] = {
    "equal": "equal to the printed digits",
    "within noise": "within the stated noise",
    "differs": "differs",
}
ONE_RUN = "in this run and on this machine; another may come out otherwise"
BY_DESIGN = "the table is generated; what agrees may do so by design"


@dataclass(frozen=True)
class Comparison:
    """One number or sentence of a paper beside ours. because: why it differs, or how much noise there is.

    is_sentence: of words and not of digits, so that "equal" means that it holds.
    """

    what: str
    printed: str
    as_published: str
    verdict: Verdict
    proved: str = ""
    because: str = ""
    is_sentence: bool = False

    def __post_init__(self) -> None:
        if self.verdict != "equal" and not self.because:
            raise ValueError(f"{self.what}: a verdict of {self.verdict!r} needs its reason")

    @property
    def in_words(self) -> str:
        """The verdict with its reason."""
        verdict = "as it says" if self.is_sentence and self.verdict == "equal" else VERDICTS[self.verdict]
        return f"{verdict}: {self.because}" if self.because else verdict


@dataclass(frozen=True)
class Outcome:
    """What an experiment gives. rows: the lines of its CSV, all with the same columns. is_timed: of run times."""

    comparisons: tuple[Comparison, ...]
    rows: tuple[Mapping[str, Any], ...]
    chart: Chart
    data: str  # which tables the figures are from, and for what they stand in
    repetitions: int = 1
    notes: tuple[str, ...] = ()
    is_timed: bool = False

    @property
    def is_generated(self) -> bool:
        """Whether a generated table is among the data."""
        return GENERATED in self.data

    def judged(self) -> Outcome:
        """Return it with no verdict that its data do not allow.

        What comes of a generated table confirms nothing: it may be there by design. What comes of a table that stands
        in for the paper's can agree, but is never equal. Run times are those of one run on one machine.
        """
        return replace(self, comparisons=tuple(self._judged(c) for c in self.comparisons))

    def _judged(self, c: Comparison) -> Comparison:
        if self.is_generated:
            return replace(c, verdict="differs", because=BY_DESIGN)
        if STANDS_IN in self.data and c.verdict == "equal":
            return replace(c, verdict="within noise", because=f"agrees, on another table: {self.data}")
        if self.is_timed:
            return replace(c, because=f"{ONE_RUN}; {c.because}" if c.because else ONE_RUN)
        return c


@dataclass(frozen=True)
class Setting:
    """What an experiment is given. quick: fewer repetitions and smaller tables, so that all take minutes."""

    data: Data
    quick: bool = False
    seed: int = 1
    progress: Progress = no_progress


@dataclass(frozen=True)
class Experiment:
    """A place of a paper, by name: "sdr-table2"."""

    name: str
    paper: Paper
    place: str  # "Table 2"
    title: str
    make: Callable[[Setting], Outcome]

    def run(self, setting: Setting) -> Outcome:
        """Return what it gives, with verdicts that its data allow."""
        return self.make(setting).judged()


def number(
    what: str,
    printed: str,
    ours: float | Fraction,
    *,
    proved: float | Fraction | str = "",
    noise: float = 0.0,
    because: str = "",
) -> Comparison:
    """Compare a printed number, a decimal or a fraction, with ours.

    They are equal if ours, rounded to as many digits, is what is printed; within noise, if it is nearer than `noise`,
    in the number's own unit, to what is printed, give or take half of the last printed digit.

    >>> number("a share", ".305", 0.30498).verdict
    'equal'
    >>> number("a share", ".305", 0.299, noise=0.01, because="standard error .005").verdict
    'within noise'
    """
    shown = ours if isinstance(ours, Fraction) and "/" in printed else decimal(ours, places(printed) + 1)
    ours_proved = proved if isinstance(proved, str) else decimal(proved, places(printed) + 1)
    verdict: Verdict = "differs"
    if is_printed(printed, ours):
        verdict = "equal"
    elif noise and abs(float(ours) - float(_value(printed))) <= noise + 0.5 * 10.0 ** -places(printed):
        verdict = "within noise"
    return Comparison(what, printed, str(shown), verdict, ours_proved, because if verdict != "equal" else "")


def sentence(
    what: str, says: str, ours: str, holds: bool, *, proved: str = "", because: str = "", noise: str = ""
) -> Comparison:
    """Compare a statement of a paper, told in our words, with what was measured.

    `noise` is how certain the measurement is; without it the comparison is exact. `because`: why it does not hold.
    """
    if holds:
        return Comparison(what, says, ours, "within noise" if noise else "equal", proved, noise, is_sentence=True)
    return Comparison(what, says, ours, "differs", proved, because or "the measured order is another", is_sentence=True)


def is_printed(printed: str, ours: float | Fraction) -> bool:
    """Whether a number, rounded to the printed digits, is what is printed; either neighbour of a half is taken.

    >>> is_printed("1/13", Fraction(1, 13)), is_printed("12.5", 12.45), is_printed(".93", 0.9325)
    (True, True, True)
    """
    value = _value(printed)
    if "/" in printed:
        return Fraction(ours) == value if isinstance(ours, Fraction) else abs(ours - float(value)) < 1e-12
    half = Fraction(1, 2 * 10 ** places(printed))
    return abs(Fraction(ours) - value) <= half * (1 + Fraction(1, 10**9))


def places(printed: str) -> int:
    """Return how many decimals are printed.

    >>> places("12.50"), places(".3"), places("7%"), places("7.4e-4"), places("1/3")
    (2, 1, 0, 5, 3)
    """
    return 3 if "/" in printed else -int(Decimal(_plain(printed)).as_tuple().exponent)


def decimal(value: float | Fraction, digits: int) -> str:
    """Return a number with so many decimals, a whole one without.

    >>> decimal(Fraction(1, 3), 2), decimal(42, 1), decimal(41.96, 1)
    ('0.33', '42', '42.0')
    """
    return f"{int(value):,}" if value == int(value) else f"{float(value):,.{digits}f}"


def _value(printed: str) -> Fraction:
    """Return a printed number; percent stay percent.

    >>> _value("1,250.5"), _value("1/13"), _value(".5")
    (Fraction(2501, 2), Fraction(1, 13), Fraction(1, 2))
    """
    return Fraction(_plain(printed))


def _plain(printed: str) -> str:
    """Return a printed number as Python writes it."""
    return printed.strip("% ").replace(",", "")
