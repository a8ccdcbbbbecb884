"""What holds of several columns with methods of their own: the formulas beside brute force, in fractions."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.claims.claim import UPWARD, Shape
from sfumato.claims.odds import OddsClaim
from sfumato.claims.several import SeveralClaim, besides, together
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import NO_BOUND, Bound, Mechanism
from sfumato.values.requirement import posterior_of_gamma
from tests.conftest import exact_weights, make_policy

Weights = list[list[int]]


def own(method: str, requirement: str, options: str = "") -> str:
    return f"; method = {{ name = '{method}'{options} }}; requirement = {{ {requirement} }}"


def planned(roles: dict[str, str], requirement: str, method: str, rows: int = 40) -> Any:
    """Return the plan for a table in which all combinations of the declared values may occur."""
    policy = make_policy(roles, requirement, method)
    domains = {a.name: a.declared or () for a in policy.attributes.attributes}
    draw = random.Random(rows)
    table = pa.table({name: [draw.choice(values) for _ in range(rows)] for name, values in domains.items()})
    return sf.plan(sf.profile(sf.scan(table, policy)), policy.method, policy.requirement)


def factor(weights: Weights, inside: Sequence[bool]) -> Fraction | None:
    """Return max_y max_{x in A} P[y, x] / min_{x not in A} P[y, x]; None: without bound."""
    found = Fraction(0)
    for row in weights:
        top = max(w for w, within in zip(row, inside, strict=True) if within)
        low = min(w for w, within in zip(row, inside, strict=True) if not within)
        if top and not low:
            return None
        found = max(found, Fraction(top, low) if low else Fraction(0))
    return found


def joined(mechanisms: Sequence[Mechanism]) -> Weights:
    """Return K(y | z) of all combinations, as integers over 2^(64 k): the slow and obvious way."""
    parts = [exact_weights(mechanism.matrix) for mechanism in mechanisms]
    return [
        [math.prod(part[y][x] for part, y, x in zip(parts, ys, xs, strict=True)) for xs in _codes(mechanisms)]
        for ys in product(*(range(len(part)) for part in parts))
    ]


def _codes(mechanisms: Sequence[Mechanism]) -> list[tuple[int, ...]]:
    return list(product(*(range(mechanism.domain.size) for mechanism in mechanisms)))


def test_the_worked_example_of_the_page() -> None:
    """Two columns of two values, gamma 3 and gamma 2: P_1 = (3/4, 1/4), P_2 = (2/3, 1/3)."""
    roles = {
        "ill": "sensitive; domain = ['no', 'yes']",
        "drug": "sensitive; domain = ['no', 'yes']" + own("uniform", "gamma = 2"),
    }
    made = planned(roles, "gamma = 3", "uniform")
    ill, drug = made.mechanisms
    assert (ill.domain.names, drug.domain.names) == (("ill",), ("drug",))
    assert [Fraction(w, 2**64) for w in exact_weights(ill.matrix)[0]] == [Fraction(3, 4), Fraction(1, 4)]
    # drug goes with ill: the prior puts 1/10 on (yes, yes) and the rest on (no, no)
    k = joined(made.mechanisms)
    cells, shown = _codes(made.mechanisms), _codes(made.mechanisms)
    seen = k[shown.index((1, 1))]
    belief = Fraction(seen[cells.index((1, 1))], seen[cells.index((1, 1))] + 9 * seen[cells.index((0, 0))])
    assert Fraction(2, 5) - Fraction(1, 10**15) < belief <= Fraction(2, 5)  # 6/15; alone, 1/4 at most
    assert together(made.mechanisms) <= 6
    said = made.guarantee.sentence
    assert "about ill by up to 2, and of one about drug by up to 3." in said
    assert said.endswith("by at most the factor 6; a prior belief of 10% can become 40%.")


# --- 220 random instances ---------------------------------------------------------------------------------------------

METHODS = [
    ("uniform", ""),
    ("subset", ""),
    ("fine-grain", ""),
    ("ranges", ""),
    ("plateau", ""),
    ("geometric", ", steps = 1"),
]


def _column(draw: random.Random, size: int) -> tuple[str, str, list[str]]:
    """Return a method, its options and the keys of a requirement that fit a column of so many ordered values."""
    method, options = draw.choice(METHODS if size > 2 else METHODS[:3])
    gamma = Fraction(draw.randint(11, 80), 10)
    if method == "fine-grain":
        stricter = 1 + (gamma - 1) * Fraction(draw.randint(2, 9), 10)
        low, high = (posterior_of_gamma(g, "1/5") for g in (stricter, gamma))
        first = f"values = [{{ value = 'p', rho1 = '1/5', rho2 = '{low}' }}]"
        return method, options, ["rho1 = '1/5'", f"rho2 = '{high}'", first]
    return method, options, [f"gamma = '{gamma}'"]


def _instances() -> Iterator[tuple[int, list[int]]]:
    draw = random.Random("several")
    for seed in range(220):
        yield seed, [draw.randint(2, 4), draw.randint(2, 4)] if seed % 11 else [2, 2, 3]


@pytest.mark.parametrize("block", range(11))
def test_the_factors_are_those_of_brute_force(block: int) -> None:
    """Of every statement about one column, of every combination, and of some statements about several."""
    for seed, sizes in list(_instances())[block::11]:
        draw = random.Random(seed)
        (method, options, keys), *others = (_column(draw, size) for size in sizes)
        named = zip(("b", "c"), sizes[1:], others, strict=False)
        roles = {"a": _role(sizes[0])} | {
            name: _role(size) + own(method, ", ".join(keys), options) for name, size, (method, options, keys) in named
        }
        policy = make_policy(roles, "\n".join(keys), method, options=options.lstrip(", "))
        table = pa.table(
            {name: [draw.choice("pqrs"[:size]) for _ in range(20)] for name, size in zip(roles, sizes, strict=True)}
        )
        _check(sf.plan(sf.profile(sf.scan(table, policy)), policy.method, policy.requirement).mechanisms, draw)


def _role(size: int) -> str:
    return f"sensitive; domain = {list('pqrs'[:size])}; ordered = true"


def _check(mechanisms: Sequence[Mechanism], draw: random.Random) -> None:
    whole, cells, k = together(mechanisms), _codes(mechanisms), joined(mechanisms)
    assert max(factor(k, [z == cell for z in cells]) or 0 for cell in cells) == whole
    for _ in range(6):
        chosen = set(draw.sample(cells, draw.randint(1, len(cells) - 1)))
        found = factor(k, [z in chosen for z in cells])
        assert found is not None
        assert whole is not None
        assert found <= whole
    for place, mechanism in enumerate(mechanisms):
        weights, others = exact_weights(mechanism.matrix), besides(mechanisms, place)
        for number in range(1, 2**mechanism.domain.size - 1):
            inside = [bool(number >> x & 1) for x in range(mechanism.domain.size)]
            alone = factor(weights, inside)
            assert alone is not None
            assert others is not None
            assert factor(k, [inside[z[place]] for z in cells]) == alone * others


def test_a_matrix_without_bound_leaves_the_others_without_one() -> None:
    """One column is published as it is (nothing is required of it): what is said of the other column says so."""
    bound = Bound(Fraction(3))
    kept = Mechanism.single(_domain("a"), PerturbationMatrix.from_retention([0.5, 0.5]), (bound, bound))
    told = Mechanism.single(_domain("b"), PerturbationMatrix.from_retention([1.0, 1.0]), (NO_BOUND, NO_BOUND))
    claim = SeveralClaim(
        ("a", "b"), ("uniform", "fine-grain"), (OddsClaim("any predicate"), OddsClaim(directions=UPWARD))
    )
    stated = claim.guarantee(Shape((kept, told)))
    assert together((kept, told)) is None
    assert "about a by no bounded factor, and of one about b by up to 3." in stated.sentence
    assert stated.sentence.endswith("The odds of a statement about several of them have no bound.")
    assert (stated.directions, stated.scope) == (UPWARD, "single values")


def _domain(name: str) -> SensitiveDomain:
    return SensitiveDomain((Domain(name, ("x", "y")),))


def test_what_is_said_of_a_second_release() -> None:
    roles = {"a": "sensitive; domain = ['x', 'y']", "b": "sensitive; domain = ['x', 'y']" + own("uniform", "gamma = 2")}
    made = planned(roles, "gamma = 3", "uniform")
    shape = Shape(made.mechanisms)
    assert "up to the factor 6 in one release, and by up to the factor 36 in two" in made.claim.second_release(
        shape, keyed=False
    )
    kept = made.claim.second_release(shape, keyed=True)
    assert "ASSUMED, NOT PROVED" in kept
    # of two values: P[y,i] / (P[y,k] P[y,i]) = 1/P[y,k]: 4 and 3, of both 12
    assert "equal published values of all columns raise them by up to the factor 12." in kept
