"""Every plan passes the check before publishing, which computes the same risk once more in another order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import Infeasible
from sfumato.methods import plan
from sfumato.methods.plan import Plan
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.method import RandomizedResponse
from sfumato.methods.response.problem import Problem, pose
from sfumato.methods.response.request import Axes
from sfumato.methods.response.risks import RiskName
from sfumato.publisher.table import profile, scan
from sfumato.values.profile import Profile
from sfumato.values.requirement import GroupLimit, RiskLimit
from tests.conftest import make_policy

RISK_NAMES: tuple[RiskName, ...] = ("reconstruction", "posterior", "link")
QUASI = ("a", "b", "c")


def counted(columns: dict[str, list[str]]) -> Profile:
    roles = {name: "sensitive" if name == "s" else "quasi_identifier" for name in columns}
    return profile(scan(pa.table(columns), make_policy(roles, "l = 3", "randomized-response")))


@lru_cache
def profiles() -> list[Profile]:
    """Random tables in which b tells nothing of the others, and c not much: optima leave such columns untouched."""
    return list(_profiles(np.random.default_rng(11), 25))


def _profiles(rng: np.random.Generator, number: int) -> Iterator[Profile]:
    for _ in range(number):
        n = int(rng.integers(40, 200))
        a, b = rng.integers(0, 3, n), rng.integers(0, rng.integers(2, 12), n)
        c = rng.integers(0, rng.integers(2, 6), n)
        s = (a + c * (rng.random(n) < 0.1) + rng.integers(0, rng.integers(2, 5), n)) % 4
        codes = dict(zip((*QUASI, "s"), (a, b, c, s), strict=True))
        yield counted({name: [f"{name}{code}" for code in of_name] for name, of_name in codes.items()})


def asked(rng: np.random.Generator, risk: RiskName) -> dict[str, Any]:
    fixed = [name for name in QUASI if rng.random() < 0.3][:2]
    scopes = ["quasi-identifiers", "both"] + ["sensitive"] * (risk == "reconstruction")
    groups = (GroupLimit((("a", ("a0",)),), f"{rng.uniform(0.3, 0.9):.4f}"),) if rng.random() < 0.4 else ()
    return {
        "requirement": RiskLimit(f"{rng.uniform(0.3, 0.9):.4f}", groups),
        "risk": risk,
        "assurance": "as-published" if risk == "reconstruction" else "proved",
        "scope": str(rng.choice(scopes)),
        "fixed": fixed,
        "objective": str(rng.choice(["l2", "chi-square"])),
    }


def planned(table: Profile, requirement: RiskLimit, **options: Any) -> Plan:
    made = plan(table, RandomizedResponse(**options), requirement)
    assert isinstance(made.figures, ResponseFigures)
    return made


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_every_fresh_plan_passes_the_check(risk: RiskName) -> None:
    rng = np.random.default_rng(12)
    made = untouched = 0
    for table in profiles():
        try:
            fresh = planned(table, **asked(rng, risk))
        except Infeasible:
            continue
        fresh.figures.recheck(fresh, table)
        made += 1
        untouched += len(fresh.figures.randomized) < len(QUASI)
    assert made >= 8
    assert untouched >= 4


def test_columns_without_noise_cost_no_margin() -> None:
    """b and c stay as they are, and have 10,000 combinations; the rest is the same in each of them."""
    rows = [("x", "0")] * 3 + [("x", "1")] * 2 + [("y", "0")] * 2 + [("y", "1")] * 3
    b, c, row = (index.ravel() for index in np.meshgrid(range(100), range(100), range(len(rows)), indexing="ij"))
    columns = [[rows[k][0] for k in row], [f"b{k}" for k in b], [f"c{k}" for k in c], [rows[k][1] for k in row]]
    table = counted(dict(zip((*QUASI, "s"), columns, strict=True)))
    fresh = planned(table, RiskLimit("0.55"), scope="quasi-identifiers")
    assert fresh.figures.randomized == ("a",)
    fresh.figures.recheck(fresh, table)


def posed(axes: Axes, limit: float, risk: RiskName) -> Problem:
    fixed = [len(axes.own)] if axes.shared else []
    return pose(axes.table, limit, risk, fixed=fixed)


def axis_names(axes: Axes) -> tuple[str, ...]:
    """Return what each axis is of."""
    quasi = axes.profile.quasi_identifiers
    return (
        *(quasi[k] for k in axes.own),
        *([", ".join(quasi[k] for k in axes.shared)] if axes.shared else []),
        axes.profile.sensitive_domain.name,
    )


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_the_margin_is_enough_at_the_least_limit_that_is_accepted(risk: RiskName) -> None:
    """At random noise, the other order: what is accepted with the margin passes, with none of it to spare."""
    rng = np.random.default_rng(13)
    for table in profiles() * 2:
        untouched = [name for name in QUASI if rng.random() < 0.5]
        mine, theirs = Axes.of(table), Axes.of(table, untouched)
        free = posed(mine, 0.5, risk)
        x = [0.0 if axis_names(mine)[k] in untouched else -rng.exponential() for k in free.free]
        point = free.sampled(np.array(x))
        limit = float(point.values.max()) * free.margin
        while limit < 1 and not posed(mine, limit, risk).keeps(point):
            limit = float(np.nextafter(limit, 1))
        if limit >= 1:
            continue
        names = axis_names(theirs)
        noise = dict(zip(axis_names(mine), point.channels, strict=True))
        same = posed(theirs, limit, risk)
        channels = tuple(noise.get(name, same.channels(np.zeros(len(same.free)))[k]) for k, name in enumerate(names))
        other = same.risk(theirs.table, channels)
        assert float(other.values.max()) == pytest.approx(float(point.values.max()), rel=1e-13)
        assert same.within(other)
