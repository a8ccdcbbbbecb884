"""Several sensitive columns as one compound: what is said of combinations, and of one column alone, exactly."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import make_policy
from tests.enumeration.bayes import belief, posteriors, statements
from tests.enumeration.folders import columns, planned, published

Pair = tuple[str, str]
RHO1, RHO2 = Fraction(1, 4), Fraction(1, 2)
SENTENCE = (
    "For each protected value x of race / job (those with a bound, listed with the matrices), and each value x of race "
    "or job alone that at most 25% of the records have: someone who believes that a record has x by as much as "
    "the share of x "
    "in the record's sub-table believes in it by at most 50% after seeing the release."
)


def asked(method: str, requirement: str, options: str = "", races: Any = "uvw", jobs: Any = "xyz") -> Any:
    roles = {
        "n": "other",
        "race": f"sensitive; domain = {list(races)}",
        "job": f"sensitive; domain = {list(jobs)}",
    }
    return make_policy(roles, requirement, method, options=options)


def content(pairs: list[Pair]) -> pa.Table:
    return pa.table({"n": list(range(len(pairs))), "race": [r for r, _ in pairs], "job": [j for _, j in pairs]})


def drawn_table(seed: int) -> list[Pair]:
    """Return a table in which race and job depend on each other."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.7, size=(3, 4))
    cells = list(product("uvw", "wxyz"))
    return [cells[k] for k in rng.choice(12, 80, p=(weights / weights.sum()).ravel())]


@pytest.mark.parametrize("seed", range(10))
def test_t5_small_domain_bounds_combinations_and_each_column_alone(seed: int) -> None:
    """Beliefs begin with the sub-table's shares: no protected combination, race or job ends above rho2."""
    pairs = drawn_table(seed)
    policy = asked("small-domain", f'rho1 = "{RHO1}"\nrho2 = "{RHO2}"', "minimum_sub_table = 8", jobs="wxyz")
    plan = planned(content(pairs), policy)
    assert plan.guarantee.sentence == SENTENCE
    manifest, _, _ = published(content(pairs), policy, plan)
    cells, n = list(product("uvw", "wxyz")), len(pairs)
    alone = [{c for c in cells if c[k] == v} for k, vs in ((0, "uvw"), (1, "wxyz")) for v in vs]
    overall = Counter(pairs)
    protected = [a for a in (*alone, *({c} for c in cells)) if 0 < sum(overall[c] for c in a) <= RHO1 * n]
    assert protected
    for number, (sub_table, quotas) in enumerate(zip(plan.figures.mechanism.tables, plan.figures.quotas, strict=True)):
        held = [cells[code] for code in sub_table.codes.tolist()]
        prior = {c: Fraction(int(q), int(quotas.sum())) for c, q in zip(held, quotas, strict=True)}
        matrix = columns(manifest, 0, number)
        law = {c: {y: matrix[y][x] for y in range(len(held))} for x, c in enumerate(held)}
        for believed in posteriors(prior, law.__getitem__).values():
            for statement in protected:
                assert belief(believed, statement.__contains__) <= RHO2


FINE = 'rho1 = "1/5"\nrho2 = "1/2"\nvalues = [{ value = ["u", "x"], rho1 = "1/10", rho2 = "1/4" }]'


def test_t5_fine_grain_states_how_far_statements_about_one_column_move() -> None:
    """The exact worst factor over all priors and outputs, beside the number that the limits tell: never below it."""
    policy = asked("fine-grain", FINE, races="uv", jobs="xy")
    table = content([("u", "x"), ("v", "y"), ("u", "y"), ("v", "x")])
    plan = planned(table, policy)
    matrix = columns(published(table, policy, plan)[0])
    cells = list(product("uv", "xy"))
    exact = max(
        max(matrix[y][x] for x in inside) / min(matrix[y][x] for x in outside)
        for statement in (("u", 0), ("v", 0), ("x", 1), ("y", 1))
        for inside in [[k for k, c in enumerate(cells) if c[statement[1]] == statement[0]]]
        for outside in [[k for k in range(4) if k not in inside]]
        for y in range(4)
    )
    (limit,) = (text for text in plan.guarantee.limits if "one column alone" in text)
    told = Fraction(re.search(r"by at most the factor ([\d.]+),", limit).group(1))  # type: ignore[union-attr]
    assert exact <= told <= exact * Fraction(10001, 10000)


def test_uniform_covers_any_statement_also_about_one_column() -> None:
    policy = asked("uniform", "gamma = 3", races="uv", jobs="xy")
    table = content([("u", "x"), ("v", "y"), ("u", "y"), ("v", "x")])
    plan = planned(table, policy)
    assert plan.guarantee.scope == "any predicate"
    assert plan.guarantee.sentence == (
        "For any statement about a record's race / job: seeing the release lets its odds change by at most the factor "
        "3."
    )
    matrix = columns(published(table, policy, plan)[0])
    for inside in statements(range(4)):
        for y in range(4):
            assert max(matrix[y][x] for x in inside) <= 3 * min(matrix[y][x] for x in range(4) if x not in inside)
