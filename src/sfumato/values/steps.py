"""What is done with the rows of a table, as values without behaviour: methods plan steps, engines carry them out.

Perturb                   each row's value is drawn from a column of a matrix
Allocate, then Perturb    the rows of each value are dealt to sub-tables first, with exact quotas
Separate                  two tables: rows with the number of their bucket, buckets with their values
Shuffle                   the rows are put in random order
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.values.attributes import SensitiveDomain
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey

Counts = npt.NDArray[np.int64]
Assign = Callable[[npt.NDArray[np.int32], SecretKey], npt.NDArray[np.int64]]
"""Gives the bucket of each record, from 0, or WITHHELD, from the codes of all records."""

WITHHELD = -1
"""The bucket of a record that is not published."""


@dataclass(frozen=True, eq=False)
class Perturb:
    """Draw values by mechanisms. `counts`: how many rows of each value of each were planned; others are refused."""

    mechanisms: tuple[Mechanism, ...]
    counts: tuple[Counts, ...]


@dataclass(frozen=True, eq=False)
class Allocate:
    """Deal the rows of each value to the sub-tables of a mechanism: so many to each."""

    mechanism: Mechanism
    quotas: tuple[Counts, ...]


@dataclass(frozen=True, eq=False)
class Dealt:
    """Buckets that are dealt by value: `number` of them; of each value some rows are withheld."""

    counts: Counts
    withheld: Counts
    number: int


@dataclass(frozen=True, eq=False)
class Assigned:
    """Buckets that are found for all records at once, from their codes in `counted`."""

    counted: SensitiveDomain
    rows: int  # of the table
    assign: Assign


@dataclass(frozen=True, eq=False)
class Separate:
    """Publish the values of `domain` by bucket."""

    domain: SensitiveDomain
    buckets: Dealt | Assigned


@dataclass(frozen=True)
class Shuffle:
    """Put the rows in random order; `rows` is about their number."""

    rows: int


RowStep = Perturb | Allocate | Separate | Shuffle
