"""A matrix that the publisher gives in a file, in place of the one that a method would compute.

    published,flu,HIV,SARS        the true values
    flu,1/2,1/8,1/4               with what probability each of them is published as flu
    HIV,1/4,3/4,1/4
    SARS,1/4,1/8,1/2

Columns sum to one; or all of them to 2^64, for integers that are taken as they are. Others are rounded so that the
guarantee holds on the integers that are sampled.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from sfumato.claims.odds import broken_sets, keeps, violations
from sfumato.errors import Infeasible, PolicyError
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.bound import SetBound
from sfumato.values.matrix.base import Direction
from sfumato.values.matrix.dense import MOST_VALUES, DenseMatrix
from sfumato.values.matrix.retention import WORDS
from sfumato.values.mechanism import Bound
from sfumato.values.requirement import exact
from sfumato.values.text import meant

ROUNDING = Fraction(1, 10**9)
"""Columns may sum to 1 give or take this, as numbers that a program computed do; they are then scaled exactly."""

MIXED_BITS = range(62, 30, -2)
"""A given matrix may be mixed with so little uniform noise, 2^-62 to 2^-32, that it is no more than rounding."""

LAYOUT = "Its first line names the true values, each further one a published value and its probabilities."


def read_columns(path: Path, domain: SensitiveDomain) -> list[list[int]]:
    """Return, for each true value, integers in proportion to the probabilities of the published values."""
    if domain.size > MOST_VALUES:
        raise PolicyError(
            f"{domain.name} has {domain.size:,} values; a matrix from a file may have {MOST_VALUES:,}.",
            "Merge values, or leave method.matrix out: retentions are found for any number of values.",
        )
    (_, *names), *lines = _lines(path)
    if wrong := next((line for line in lines if len(line) != len(names) + 1), None):
        raise PolicyError(f"{path}: the line of {wrong[0]!r} has {len(wrong)} fields, not {len(names) + 1}.", LAYOUT)
    true = _codes(path, names, domain, "column")
    published = _codes(path, [line[0] for line in lines], domain, "line")
    columns = [[Fraction(0)] * domain.size for _ in range(domain.size)]
    for y, line in zip(published, lines, strict=True):
        for x, written in zip(true, line[1:], strict=True):
            columns[x][y] = _probability(path, written, line[0], names[true.index(x)])
    return list(_integers(path, columns, domain))


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file, strict=True) if line]
    except FileNotFoundError:
        raise PolicyError(
            f"There is no file {str(path)!r}.", "method.matrix is looked for in the policy's folder."
        ) from None
    except (OSError, ValueError, csv.Error) as problem:
        raise PolicyError(f"{path} cannot be read as CSV: {problem}.", "Give a CSV file in UTF-8.") from None
    if not lines:
        raise PolicyError(f"{path} is empty.", LAYOUT)
    return lines


def _codes(path: Path, names: Sequence[str], domain: SensitiveDomain, what: str) -> list[int]:
    """Return the codes of the named values; every value of the domain is named once."""
    place = {label: code for code, label in enumerate(domain.labels)}
    if wrong := [name for name in names if name not in place]:
        raise PolicyError(
            f"{path} has a {what} {wrong[0]!r}, which is not a value of {domain.name!r}.",
            meant(wrong[0], domain.labels, "Its values are"),
        )
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise PolicyError(f"{path} has the {what} {twice[0]!r} twice.", "Give every value once.")
    if lacking := [label for label in domain.labels if label not in names]:
        raise PolicyError(
            f"{path} has no {what} {lacking[0]!r}, which is a value of {domain.name!r}.",
            f"Give a {what} for each of its {domain.size:,} values.",
        )
    return [place[name] for name in names]


def _probability(path: Path, written: str, published: str, true: str) -> Fraction:
    number = exact(written, f"{path}, line {published!r}, column {true!r}: probability")
    if number < 0:
        raise PolicyError(
            f"{path}, line {published!r}, column {true!r}: {written} is negative.", "Probabilities are not."
        )
    if number > WORDS:
        raise PolicyError(
            f"{path}, line {published!r}, column {true!r}: {written} is above 2^64.",
            "Give probabilities, or whole numbers that sum to 2^64.",
        )
    return number


def _integers(path: Path, columns: Sequence[Sequence[Fraction]], domain: SensitiveDomain) -> Iterator[list[int]]:
    """Yield each column over its common denominator."""
    sums = [sum(column, Fraction(0)) for column in columns]
    if any(total != WORDS for total in sums) and (
        wrong := [x for x, total in enumerate(sums) if abs(total - 1) > ROUNDING]
    ):
        raise PolicyError(
            f"{path}: the column {domain.labels[wrong[0]]!r} sums to {float(sums[wrong[0]]):.10g}, not to 1.",
            "Columns are true values: with which probability each value is published for them. They sum to 1.",
        )
    for x, column in enumerate(columns):
        if sum(map(bool, column)) < 2:
            raise PolicyError(
                f"{path}: the column {domain.labels[x]!r} leaves one value only, which is then always published.",
                "Give two values or more a probability above 0.",
            )
        common = math.lcm(*(number.denominator for number in column))
        yield [int(number * common) for number in column]


# --- integers -------------------------------------------------------------------------------------------------------


def round_given(
    columns: Sequence[Sequence[int]],
    bounds: Sequence[Bound],
    directions: Sequence[Direction],
    domain: SensitiveDomain,
    sets: Sequence[SetBound] = (),
) -> DenseMatrix:
    """Return the integer matrix next to a given one that keeps every bound exactly; columns are in proportion.

    Every entry is within a unit of 2^-64 of the one given. Where that breaks a bound which the given numbers keep,
    (1 - d) P + d/m is taken with the least d = 2^-b: it leaves each bound a slack of (gamma - 1) d/m, far more than a
    unit. A matrix that breaks a bound by more than rounding is refused.
    """
    plain = DenseMatrix.from_shares(columns)
    if keeps(plain, bounds, directions, sets):
        return plain
    for bits in MIXED_BITS:
        mixed = DenseMatrix.from_shares(_mixed(column, bits) for column in columns)
        if keeps(mixed, bounds, directions, sets):
            return mixed
    raise _broken_set(plain, sets, directions, domain) or _broken(plain, bounds, directions, domain)


def _broken_set(
    matrix: DenseMatrix, sets: Sequence[SetBound], directions: Sequence[Direction], domain: SensitiveDomain
) -> Infeasible | None:
    """Name a set whose bound is broken; None where only single values are."""
    found = next(broken_sets(matrix, sets, directions), None)
    if found is None:
        return None
    each, direction, factor = found
    by = "without bound" if factor is None else f"by a factor of {float(factor):.6g}"
    return Infeasible(
        f"The given matrix breaks the requirement that {each.told(domain)}: a published value "
        f"{'raises' if direction == 'upward' else 'lowers'} its odds {by}; {float(each.bound.gamma or 0):.6g} is "
        "allowed.",
        "In every line bring the entries inside the set and outside nearer to each other, or loosen the requirement.",
    )


def _mixed(column: Sequence[int], bits: int) -> list[int]:
    """Return (1 - 2^-bits) p + 2^-bits/m, in integers of another total."""
    total, m = sum(column), len(column)
    return [((1 << bits) - 1) * m * entry + total for entry in column]


def _broken(
    matrix: DenseMatrix, bounds: Sequence[Bound], directions: Sequence[Direction], domain: SensitiveDomain
) -> Infeasible:
    """Name the value whose bound is broken most, and the two entries that do it."""
    found = list(violations(matrix, bounds, directions))
    worst = max(found, key=lambda broken: (broken.factor is None, (broken.factor or 0) / broken.gamma))
    published, rival = (domain.labels[code] for code in matrix.worst_case(worst.code, worst.direction))
    value, values = domain.labels[worst.code], len({broken.code for broken in found})
    by = "without bound" if worst.factor is None else f"by a factor of {float(worst.factor):.6g}"
    way = "raises" if worst.direction == "upward" else "lowers"
    return Infeasible(
        f"The given matrix breaks the requirement on {value!r}: a published {published!r} {way} its odds against "
        f"{rival!r} {by}; {float(worst.gamma):.6g} is allowed. {values:,} of {domain.size:,} values are beyond theirs.",
        f"In the line {published!r} bring the entries of {value!r} and {rival!r} nearer to each other, or loosen the "
        "requirement.",
    )
