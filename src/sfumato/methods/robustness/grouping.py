"""r-robust groups, proved: a deal inside the cells (`kinds`), then guests where the posterior allows them (`guests`).

Tuples of one cell agree in every attribute set, so a group as dealt has p(t:x) = 1/N <= 1/r under every prior on
signatures. That needs no prior; one is needed only to seat guests, and what they were promised holds under it alone.

Guests and withheld records hold a value of which their cell has more than g records. One who knows how groups are made
knows that; the bound for guests is for an adversary who does not. For all others it holds against him too: if two
records of one cell and group exchange their values and their random numbers, the release is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.errors import PolicyError, TableError
from sfumato.methods.robustness.guests import MOST_HOSTS, AttributeSet, seat_guests
from sfumato.methods.robustness.kinds import Kinds, Order, cell_signatures, deal
from sfumato.methods.robustness.prior import Prior, check_prior
from sfumato.values.arrays import IntArray
from sfumato.values.steps import WITHHELD


@dataclass(frozen=True)
class Withheld:
    """The records of a cell that are not published."""

    cell: int
    records: int  # of the cell
    withheld: int
    values: tuple[int, ...]  # what the withheld records hold
    largest_r: int  # at which the whole cell can be dealt; 1: at none, for a value has more than half of it

    def told(self, cell: str, values: Sequence[str]) -> str:
        """Return it in words, with what would help. values: the names of all values.

        >>> Withheld(0, 6, 2, (1,), 1).told("(Female, 41)", ["flu", "HIV"])
        "(Female, 41): 2 of 6 record(s) withheld, with 'HIV'. Leave an attribute out, so that cells merge."
        """
        held = ", ".join(repr(values[x]) for x in self.values)
        less = f"Ask for r <= {self.largest_r}, or leave" if self.largest_r > 1 else "Leave"
        return (
            f"{cell}: {self.withheld:,} of {self.records:,} record(s) withheld, with {held}. "
            f"{less} an attribute out, so that cells merge."
        )


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of every record, or `WITHHELD`."""

    groups: IntArray
    number: int  # of groups
    leftover: int  # records that the deal left over: `leftovers` tells it beforehand
    guests: int  # of them, those seated in groups of another cell
    withheld: tuple[Withheld, ...]  # the others, by cell


def group_records(
    cells: IntArray,
    values: IntArray,
    signatures: Sequence[IntArray],
    order: Order,
    r: int,
    priors: Sequence[Prior] | None = None,
    most_hosts: int = MOST_HOSTS,
) -> Grouping:
    """Return r-robust groups.

    cells, values, signatures (one array for each attribute set): codes of the records. order: decides which records of
    a kind go where. priors: one for each attribute set, to seat guests, each with `most_hosts` groups at most; without
    them all that is left over is withheld.
    """
    _check(cells, order, r)
    of_cells = [cell_signatures(cells, codes) for codes in signatures]
    kinds = Kinds.of(cells, values)
    groups = deal(kinds, order, r)
    leftover = int(np.count_nonzero(groups == WITHHELD))
    if priors is not None:
        for prior, codes in zip(priors, signatures, strict=True):
            check_prior(prior, codes, values)
        groups = seat_guests(kinds, groups, order, list(map(AttributeSet, of_cells, priors)), r, most_hosts)
    withheld = tuple(_withheld(kinds, groups))
    guests = leftover - sum(part.withheld for part in withheld)
    return Grouping(groups, int(groups.max()) + 1, leftover, guests, withheld)


def _withheld(kinds: Kinds, groups: IntArray) -> Iterator[Withheld]:
    lost = np.bincount(kinds.of_record[groups == WITHHELD], minlength=kinds.counts.size)
    for cell in np.unique(kinds.cells[lost > 0]).tolist():
        here = slice(*np.searchsorted(kinds.cells, [cell, cell + 1]))
        counts, gone = kinds.counts[here], lost[here]
        records = int(counts.sum())
        values = tuple(kinds.values[here][gone > 0].tolist())
        yield Withheld(cell, records, int(gone.sum()), values, records // int(counts.max()))


def _check(cells: IntArray, order: Order, r: int) -> None:
    if r < 2:
        raise PolicyError(f"r must be at least 2, not {r}.", "r = 2: nothing is believed by more than one half.")
    if cells.size == 0:
        raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
    if np.unique(order).size < cells.size:
        raise ValueError("two records have the same random number")
