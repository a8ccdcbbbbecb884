"""Formulas: what they mean, which columns they give, and how wrong ones are refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.analyst.regression.design import columns_of, design_of
from sfumato.analyst.regression.factors import Known
from sfumato.analyst.regression.formula import parsed_factor, parsed_formula
from sfumato.errors import UsageError


@pytest.mark.parametrize(
    ("text", "terms", "intercept"),
    [
        ("y ~ a", [("a",)], True),
        ("y ~ 1", [], True),
        ("y ~ 0 + a", [("a",)], False),
        ("y ~ a - 1", [("a",)], False),
        ("y ~ -1 + a", [("a",)], False),
        ("y ~ a * b", [("a",), ("b",), ("a", "b")], True),
        ("y ~ b:a + a", [("a",), ("b", "a")], True),
        ("y ~ (a + b) * c - a:c", [("a",), ("b",), ("c",), ("b", "c")], True),
        ("y ~ a * b * c - a:b:c", [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")], True),
        ("y ~ a + a + a:a", [("a",)], True),
        ("y ~ x > -5 + z BETWEEN -3 AND 4", [("x > -5",), ("z BETWEEN -3 AND 4",)], True),
        ("y ~ d IN ('a + b', 'c:d')", [("d IN ('a + b', 'c:d')",)], True),
        ("y ~ I(x - 1) * log(z)", [("I(x - 1)",), ("log(z)",), ("I(x - 1)", "log(z)")], True),
        ('y ~ "my col" + größe', [('"my col"',), ("größe",)], True),
    ],
)
def test_terms(text: str, terms: list[tuple[str, ...]], intercept: bool) -> None:
    found = parsed_formula(text)
    assert list(found.terms) == terms
    assert found.intercept == intercept


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("diagnosis == 'it''s'", "diagnosis = 'it''s'"),
        ("log(x)", "LN(x)"),
        ("I(x ** 2)", "POWER(x, 2)"),
        ("I(x^2 / 10)", "POWER(x, 2) / 10"),
        ("C(left(x, 3))", "LEFT(x, 3)"),
        ("bins(x, 30, 50)", "CASE WHEN x < 30.0 THEN 'below 30' WHEN x < 50.0 THEN '[30, 50)' "
         "WHEN NOT x IS NULL THEN '50 and above' END"),
        ("C(x, sets={'h': ['a', 'b']})", "CASE WHEN CAST(x AS TEXT) IN ('a', 'b') THEN 'h' ELSE CAST(x AS TEXT) END"),
        ("C(x, sets={'h': ['a']}, others='z')",
         "CASE WHEN CAST(x AS TEXT) IN ('a') THEN 'h' WHEN NOT x IS NULL THEN 'z' END"),
    ],
)  # fmt: skip
def test_factors(text: str, sql: str) -> None:
    assert parsed_factor(text, "factor").tree.sql(dialect="duckdb") == sql


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y", "needs an outcome, one ~"),
        ("y ~", "needs an outcome, one ~"),
        ("~ a", "needs an outcome, one ~"),
        ("y ~ a ~ b", "needs an outcome, one ~"),
        ("y ~ a +", "A term is missing"),
        ("y ~ a + * b", "A term is missing"),
        ("y ~ (a", "never closed"),
        ("y ~ a)", "without its"),
        ("y ~ 'a", "a quote is never closed"),
        ("y ~ a ; DROP", "';' does not belong there"),
        ("y ~ x / 10", "is arithmetic"),
        ("y ~ 2 + a", "2 is no term"),
        ("y ~ 3 * a", "names no column"),
        ("y ~ C(a, b)", "has no name"),
        ("y ~ C(a, level='b')", "has no 'level'"),
        ("y ~ C(a, sets=['b'])", "needs a name and a list"),
        ("y ~ C(a, sets={'s': ['b'], 't': ['b']})", "is in two sets"),
        ("y ~ C(a, others='b')", "goes with sets="),
        ("y ~ C(a, reference=b)", "is no value"),
        ("y ~ bins(a)", "edges of bins ascend"),
        ("y ~ bins(a, 5, 3)", "edges of bins ascend"),
        ("y ~ bins(a, b)", "are numbers"),
        ("y ~ middle(a + b)", "is of a column"),
        ("y ~ center(a, b)", "takes one argument"),
        ("y ~ a b", "cannot be read"),
    ],
)
def test_wrong_formulas_are_refused_with_a_remedy(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        parsed_formula(text)
    assert told.value.hint


LEVELS = {"a": 2, "b": 3, "c": 2}
TERMS = [term for term in product((0, 1), repeat=4) if any(term)]


@given(chosen=st.lists(st.sampled_from(TERMS), min_size=1, max_size=5, unique=True), intercept=st.booleans())
@settings(max_examples=150)
def test_columns_span_all_dummies_without_one_too_many(chosen: list[tuple[int, ...]], intercept: bool) -> None:
    """The oracle: every product of all levels, whose rank is that of the design, which has no column to spare."""
    names = ("a", "b", "c", "x")
    terms = [":".join(name for name, used in zip(names, term, strict=True) if used) for term in chosen]
    formula = parsed_formula(f"y ~ {'1' if intercept else '0'} + {' + '.join(terms)}")
    grid = np.array(list(product(range(2), range(3), range(2), (0.3, 1.7, -2.0, 5.5))))
    values = {name: grid[:, k, None].astype(float) for k, name in enumerate(names)}
    factors = {name: parsed_factor(name, "factor") for name in names}
    known = {
        name: Known(f, "", tuple("pqr"[: LEVELS[name]]) if name in LEVELS else None) for name, f in factors.items()
    }
    design = design_of(columns_of(formula, known), values)
    design = np.broadcast_to(design, (len(grid), 1, design.shape[2]))[:, 0]
    dummies = [np.ones((len(grid), 1))] if intercept else []
    for term in formula.terms:
        whole = np.ones((len(grid), 1))
        for name in term:
            own = values[name] if name == "x" else (values[name] == np.arange(LEVELS[name])).astype(float)
            whole = (whole[:, :, None] * own[:, None, :]).reshape(len(grid), -1)
        dummies.append(whole)
    every = np.hstack(dummies)
    rank = np.linalg.matrix_rank(every)
    assert design.shape[1] == rank == np.linalg.matrix_rank(design)
    assert np.linalg.matrix_rank(np.hstack([design, every])) == rank
