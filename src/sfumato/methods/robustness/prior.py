"""What the adversary knows beforehand: p(s:x), the probability of value x for a tuple with signature s. PI Def. 2.

A signature is a combination of the values of an attribute set, such as (Female) or (Female, 41). Probabilities are kept
as integers: p(s:x) = weights[s, x] / totals[s]. A row's factor changes no posterior, so the integers suffice for exact
answers.

    from the table   weights are the counts: the adversary knows every share of the table
    from a file      CSV, one probability a line: the columns of the attribute set, `value`, `probability`
    none             nothing is assumed of it; then only groups that hold for every prior pass
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import PolicyError
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.requirement import exact

Signature = tuple[str, ...]
Entry = tuple[Signature, str]

LARGEST_TOTAL = 2**62
ROUNDING = Fraction(1, 100)
"""Statistics are published rounded: the probabilities of a signature may sum to 1 give or take this."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Pr(value | signature) of one attribute set, as integers."""

    weights: IntArray  # (signature, value)
    totals: IntArray  # signature -> what its weights are shares of

    @cached_property
    def probabilities(self) -> FloatArray:
        """p(s:x)."""
        return np.asarray(self.weights / self.totals[:, None])

    def to_dict(self) -> dict[str, Any]:
        """Return the prior with its numbers as text: they may be above 2^53."""
        return {"weights": self.weights.astype(str).tolist(), "totals": self.totals.astype(str).tolist()}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Prior:
        return cls(np.array(raw["weights"]).astype(np.int64), np.array(raw["totals"]).astype(np.int64))


def count_prior(signatures: IntArray, values: IntArray) -> Prior:
    """Return the table's own shares: p(s:x) = records with s and x / records with s. Codes must all occur.

    >>> count_prior(np.array([0, 0, 1]), np.array([0, 1, 1])).probabilities.tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    weights = np.zeros((signatures.max() + 1, values.max() + 1), dtype=np.int64)
    np.add.at(weights, (signatures, values), 1)
    return Prior(weights, weights.sum(axis=1))


def check_prior(prior: Prior, signatures: IntArray, values: IntArray) -> None:
    """Raise if a record has what the prior holds to be impossible."""
    wrong = np.flatnonzero(prior.weights[signatures, values] == 0)
    if wrong.size:
        s, x = signatures[wrong[0]], values[wrong[0]]
        raise PolicyError(
            f"The prior contradicts the table: it gives value {x} probability 0 for signature {s}, but a record has it "
            f"({wrong.size:,} such record(s) in all).",
            "Give a probability above 0 to whatever occurs.",
        )


def read_prior(
    path: Path, columns: Sequence[str], signatures: Sequence[Signature], values: Sequence[str], seen: IntArray
) -> Prior:
    """Return the prior of a CSV file, for the table's signatures and values in code order.

    An entry that is not listed has probability 0. `seen` (signature, value) counts the table's records: one to which
    the file gives probability 0 contradicts it, and so does a signature that the file leaves out. Other signatures and
    values in the file are passed over.
    """
    entries = dict(_entries(path, columns))
    _check_sums(path, entries)
    known = {signature for signature, _ in entries}
    if lacking := [s for s in signatures if s not in known]:
        raise PolicyError(f"{path} says nothing of {_named(lacking[0])}, which the table has.", "List its values.")
    rows = [_integers(path, s, [entries.get((s, x), Fraction(0)) for x in values]) for s in signatures]
    prior = Prior(np.array([row for row, _ in rows]), np.array([total for _, total in rows]))
    _check_seen(path, prior, signatures, values, seen)
    return prior


def _entries(path: Path, columns: Sequence[str]) -> Iterator[tuple[Entry, Fraction]]:
    """Yield the entries of the file, checked."""
    if taken := {"value", "probability"} & set(columns):
        raise PolicyError(
            f"The attribute set has a column {min(taken)!r}, and files of priors have one of that name for themselves.",
            'Rename the column in the table, or say prior = "table" or "none".',
        )
    header, *lines = _lines(path)
    needed = [*columns, "value", "probability"]
    if not header:
        raise PolicyError(f"{path} is empty.", f"Begin it with the line {','.join(needed)}.")
    if sorted(header) != sorted(needed):
        raise PolicyError(
            f"{path} must have the columns {', '.join(needed)}, not {', '.join(header)}.", "Mend its first line."
        )
    places = [header.index(name) for name in needed]
    before: set[Entry] = set()
    for number, line in enumerate(lines, 2):
        where = f"{path}, line {number}"
        if not line:
            continue
        if len(line) != len(header):
            raise PolicyError(
                f"{where}: {len(line)} field(s) instead of {len(header)}.", "A field that holds a comma must be quoted."
            )
        *signature, value, probability = (line[place] for place in places)
        entry = tuple(signature), value
        if entry in before:
            raise PolicyError(f"{where}: {value!r} is listed twice for {_named(entry[0])}.", "Leave one line.")
        before.add(entry)
        yield entry, _probability(probability, where)


def _lines(path: Path) -> list[list[str]]:
    """Return the lines of a CSV file, the header first."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, strict=True)) or [[]]
    except FileNotFoundError:
        raise PolicyError(f"There is no file {str(path)!r}.", "Priors are looked for in the policy's folder.") from None
    except (OSError, ValueError, csv.Error) as error:
        raise PolicyError(f"{path} cannot be read as CSV: {error}.", "Give a CSV file in UTF-8.") from None


def _probability(written: str, where: str) -> Fraction:
    number = exact(written, f"{where}: probability")
    if not 0 <= number <= 1:
        raise PolicyError(f"{where}: a probability lies between 0 and 1; {written} does not.", "30% is 0.3.")
    return number


def _check_sums(path: Path, entries: Mapping[Entry, Fraction]) -> None:
    sums: dict[Signature, Fraction] = {}
    for (signature, _), number in entries.items():
        sums[signature] = sums.get(signature, Fraction(0)) + number
    for signature, total in sums.items():
        if abs(total - 1) > ROUNDING:
            raise PolicyError(
                f"{path}: the probabilities of {_named(signature)} sum to {float(total):.6g}, not to 1.",
                "List every value; a posterior cannot be computed from a part of them.",
            )


def _integers(path: Path, signature: Signature, row: Sequence[Fraction]) -> tuple[list[int], int]:
    """Return a row over its common denominator."""
    total = math.lcm(*(number.denominator for number in row))
    if total > LARGEST_TOTAL:
        raise PolicyError(f"{path}: the probabilities of {_named(signature)} have too many digits.", "18 are enough.")
    return [int(number * total) for number in row], total


def _check_seen(
    path: Path, prior: Prior, signatures: Sequence[Signature], values: Sequence[str], seen: IntArray
) -> None:
    wrong = np.argwhere((seen > 0) & (prior.weights == 0))
    if wrong.size:
        s, x = wrong[0]
        raise PolicyError(
            f"{path} contradicts the table: it gives {values[x]!r} probability 0 for {_named(signatures[s])}, "
            f"but {seen[s, x]:,} record(s) have it ({len(wrong)} such pair(s) in all).",
            "Give a probability above 0 to whatever occurs.",
        )


def _named(signature: Signature) -> str:
    return f"({', '.join(signature)})"
