"""T11: what fine-grain's matrix alone tells someone who knows no record of the table, by enumeration of all tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import factorial, prod
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.values.profile import Profile
from tests.conftest import make_policy

VALUES = ("SARS", "HIV", "H1N1", "cancer")
RHO = (("1/10", "1/7"), ("1/10", "1/4"), ("1/9", "19/35"), ("1/8", "18/25"))
REQUIREMENT = sf.FineGrainPrivacy(  # FG Example 1
    tuple(sf.ValueRequirement(value, *rho) for value, rho in zip(VALUES, RHO, strict=True))
)
RECORDS = 10
BELIEF = (Fraction(1, 10), Fraction(2, 10), Fraction(3, 10), Fraction(4, 10))
"""What is believed of every record by itself, before the release."""


def compositions(records: int, values: int) -> Iterator[tuple[int, ...]]:
    if values == 1:
        yield (records,)
        return
    for first in range(records + 1):
        for rest in compositions(records - first, values - 1):
            yield (first, *rest)


def counted(counts: tuple[int, ...]) -> Profile:
    table = pa.table({"d": [value for value, n in zip(VALUES, counts, strict=True) for _ in range(n)]})
    return sf.profile(sf.scan(table, make_policy({"d": f"sensitive; domain = {list(VALUES)!r}".replace("'", '"')})))


def factors(**options: Any) -> dict[bytes, tuple[Fraction, list[Fraction]]]:
    """Return, for each matrix that can be published, its probability and the factors of one record's odds, exactly."""
    chance: dict[bytes, Fraction] = defaultdict(Fraction)
    joint: dict[bytes, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * len(VALUES))
    for counts in compositions(RECORDS, len(VALUES)):
        made = sf.plan(counted(counts), sf.FineGrain(**options), REQUIREMENT)
        matrix = made.figures.matrix.integers  # type: ignore[union-attr]
        ways = factorial(RECORDS) // prod(map(factorial, counts))
        weight = ways * prod((b**n for b, n in zip(BELIEF, counts, strict=True)), start=Fraction(1))
        chance[matrix] += weight
        for i, n in enumerate(counts):  # records are alike: the share of i among them is that of any one record
            joint[matrix][i] += weight * Fraction(n, RECORDS)
    assert sum(chance.values()) == 1
    return {
        matrix: (p, [_odds(j / p) / _odds(b) for j, b in zip(joint[matrix], BELIEF, strict=True)])
        for matrix, p in chance.items()
    }


def _odds(belief: Fraction) -> Fraction:
    return belief / (1 - belief)


def test_t11_by_default_the_matrix_tells_nothing_of_any_record() -> None:
    for objective in ("error", "records"):
        [(chance, moved)] = factors(objective=objective).values()
        assert chance == 1
        assert moved == [1, 1, 1, 1]


def test_t11_weights_from_the_table_tell_also_someone_who_knows_no_record() -> None:
    """SARS may move by 3/2 only. The matrix tells whether few records have it, and moves its odds by 6.4."""
    told = factors(weights="observed", objective="records")
    assert len(told) == 3
    largest = sorted((max(moved), float(chance)) for chance, moved in told.values())
    assert [(round(float(factor), 2), round(chance, 4)) for factor, chance in largest] == [
        (1.01, 0.9872),
        (6.35, 0.0128),
        (21.43, 0.0),
    ]


def test_t11_the_default_of_a_policy_is_equal_weights() -> None:
    policy = make_policy({"d": "sensitive"}, method="fine-grain")
    assert policy.method.weights == "equal"


@pytest.mark.parametrize("weights", ["observed", "equal"])
def test_t11_a_plan_says_that_its_matrix_came_from_the_table(weights: str) -> None:
    made = sf.plan(counted((4, 3, 2, 1)), sf.FineGrain(weights=weights), REQUIREMENT)
    assert made.from_table is (weights == "observed")
    assert any("The bound holds given the matrix." in note for note in made.notes) is (weights == "observed")
