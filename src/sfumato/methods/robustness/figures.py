"""What robust Anatomy makes of the table: the formula, and a rehearsal on the counts; and their words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.claims.buckets import BucketClaim
from sfumato.show.words import share


@dataclass(frozen=True)
class WithheldCell:
    """Records that agree in all columns of the attribute sets, and of which some are withheld."""

    cell: tuple[str, ...]  # values of the columns
    records: int
    withheld: int
    values: tuple[str, ...]  # that the withheld records have
    largest_r: int  # at which none would be; 1: at none, for a value has more than half of the records


@dataclass(frozen=True)
class RobustFigures:
    """What robust Anatomy makes of the table: the formula, and a rehearsal on the counts."""

    cells: int  # combinations of the columns of all attribute sets that occur
    leftover: int  # sum over cells of sum_x max(0, n_cx - g): what groups inside cells cannot take
    mixed: int  # groups with records of several cells; if proved, each has one guest
    withheld: tuple[WithheldCell, ...]  # the cells that lose most
    withheld_cells: int  # how many there are
    checks: dict[str, int]  # check -> groups that pass it
    examined: int  # groups that were checked
    worst: float  # the largest posterior of a record in a group
    breach: float  # share of the published records in groups with a posterior above 1/r
    plain_worst: float  # the same of plain Anatomy with l = r
    plain_breach: float

    def leftover_line(self, claim: BucketClaim, rows: int) -> str:
        """Return what the formula tells before a record is dealt."""
        return (
            f"Groups inside cells ({self.cells:,} combinations of {', '.join(claim.dealt_within)}) leave over "
            f"{self.leftover:,} of {rows:,} records: those whose value is too frequent in their cell to be dealt to "
            f"groups in which no value is more than 1 in {claim.at_most.denominator}."
        )

    def explained(self, claim: BucketClaim, rows: int, withheld: int, groups: int, exact: bool) -> Iterator[str]:
        """Yield what is left over, what is withheld, and what is left to believe; `exact`: no guests are drawn."""
        yield "Leftovers, by a formula, before a record is dealt"
        yield f"  {self.leftover_line(claim, rows)}"
        yield ""
        yield from self._withheld(claim, withheld, exact)
        yield ""
        yield from self._posteriors(claim, groups, exact)

    def _withheld(self, claim: BucketClaim, withheld: int, exact: bool) -> Iterator[str]:
        mixed = f"{self.mixed:,} groups mix cells"
        if claim.assurance == "proved":
            mixed = "no prior, and so no guests" if exact else f"{self.mixed:,} groups take one of them as a guest"
        how = "By the formula" if exact else "Rehearsal on the counts"
        told = f"{how}: {mixed}; {withheld:,} records are withheld"
        if not withheld:
            yield f"{told}."
            return
        yield f"{told}, in {self.withheld_cells:,} cells by {', '.join(claim.dealt_within)}"
        for cell in self.withheld:
            yield (
                f"  ({', '.join(cell.cell)}): {cell.withheld:,} of {cell.records:,} withheld, with "
                f"{', '.join(map(repr, cell.values))}; "
                + (f"none at r <= {cell.largest_r}" if cell.largest_r > 1 else "some at every r")
            )
        if more := self.withheld_cells - len(self.withheld):
            yield f"  ... and {more:,} more cells"
        yield (
            "  What would help: a lower r; a coarser column, or one less, in the attribute sets, so that cells merge; "
            "if one of these values need not be hidden, publishing its records apart, as they are; or accept that they "
            "are withheld."
        )

    def _posteriors(self, claim: BucketClaim, groups: int, exact: bool) -> Iterator[str]:
        r, prior = claim.at_most.denominator, claim.prior or "none"
        under = {"none": "any prior", "table": "the table's own shares", "file": "the shares of the files"}[prior]
        beside = under if prior != "none" else "the table's own shares"
        part = f" (of {groups:,} groups, {self.examined:,} were examined)" if self.examined < groups else ""
        rehearsed = "" if exact else " of the rehearsal"
        yield (
            f"Largest belief in a value of a published record{rehearsed}, under {under}: {self.worst:.4f}, where 1/r = "
            f"{1 / r:.4f}. {share(self.breach, 2)} of the published records are in groups that exceed it{part}."
        )
        for name, passed in self.checks.items():
            yield f"  {name:28} holds for {passed:>9,} of {self.examined:,} groups"
        yield (
            f"  Plain Anatomy with l = {r}, for comparison, under {beside}: {share(self.plain_breach, 2)} of the "
            f"records in groups that exceed it; largest belief {self.plain_worst:.4f}."
        )
