"""Which rows of Adult AD Tables 4 and 5 are from: it says 45,222, and its figures tell of the training part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato_papers.ad.measures import WITH_SENSITIVE, WITHIN, correlation
from sfumato_papers.ad.tables import ESGRO, Joint, joint, joint_of_all
from sfumato_papers.data import Data
from sfumato_papers.experiment import is_printed

ORIGINAL: Mapping[str, str] = dict(
    zip(
        (*WITHIN, *WITH_SENSITIVE),
        ("11.54", "0.68", "1.92", "4.12", "1.07", "1.08", "9.90", "2.74", "4.40", "0.57"),
        strict=True,
    )
)
"""What is printed for the table before it is changed."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Those of the original, from some of Adult's rows."""

    rows: int
    found: Mapping[str, float]

    @classmethod
    def of(cls, table: Joint) -> Coefficients:
        """Compute all ten."""
        return cls(table.rows, {pair: correlation(table.counts, pair) for pair in ORIGINAL})

    @property
    def as_printed(self) -> int:
        """How many round to what is printed."""
        return sum(is_printed(text, self.found[pair]) for pair, text in ORIGINAL.items())

    def told(self) -> str:
        """All in words."""
        figures = ", ".join(f"{pair} {u:.2f}" for pair, u in self.found.items())
        return f"on {self.rows:,} rows {self.as_printed} of {len(ORIGINAL)} are as printed ({figures})"


def both(data: Data) -> tuple[Coefficients, Coefficients]:
    """Return those of the training rows, and of all rows."""
    return Coefficients.of(joint(data, ESGRO)), Coefficients.of(joint_of_all(data, ESGRO))
