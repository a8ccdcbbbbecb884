"""Every answer from a release by groups, written down once more: row by row, with dense matrices, to 1e-7.

The reference takes the two tables as lists of rows. A *piece* is a number z of each record and weights f of the values:
what is asked is the sum of z f(value). It is estimated, in each stratum, from the groups' sums s = G z with the dense
matrix C of compositions, by theta = (C'WC)^-1 C'W s, and has the variance of `sfumato.analyst.grouped.buckets`: the
formulas there, for one piece, or two, at a time. A question is a sum of pieces, one for each set of values with which a
row can satisfy its condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.grouped.buckets import PRIOR_FREEDOM
from sfumato.analyst.grouped.compositions import OWN_VARIANCE
from sfumato.analyst.release import Release
from tests.analyst.test_sql_oracle import (
    ALL,
    COOK,
    FIGURES,
    JOBLESS,
    NO_HOURS,
    NOT_BAKER,
    OLD,
    POOR,
    SOUTH,
    WOMAN,
    Claim,
    Figure,
    Z,
    shares,
)  # fmt: skip
from tests.engines.grouped import all_values, codes_of, dealt_groups, grouped_release

Array = npt.NDArray[np.float64]
Row = dict[str, Any]
ROWS = 200
JOBS = ["baker", "clerk", "cook", "smith", None]


# --- releases with missing values in every column ---------------------------------------------------------------------


def people(seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)

    def column(values: Any, missing: float = 0.08) -> list[Any]:
        return [None if rng.random() < missing else value for value in np.asarray(values).tolist()]

    sex = rng.choice(["F", "M"], ROWS)
    shares = np.where((sex == "F")[:, None], [0.3, 0.1, 0.2, 0.25, 0.15], [0.1, 0.3, 0.25, 0.15, 0.2])
    job = (rng.random((ROWS, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    return pa.table(
        {
            "sex": column(sex),
            "region": rng.choice([1, 2, 3], ROWS, p=[0.4, 0.35, 0.25]),
            "age": column(rng.integers(18, 80, ROWS)),
            "income": column(rng.normal(500, 700, ROWS).round(2)),
            "hours": column(rng.integers(1, 60, ROWS)),
            "w": column(rng.choice([0.5, 1.0, 2.5], ROWS), 0),  # missing weights are refused
            "job": [JOBS[k] for k in job],
            "ill": (rng.random(ROWS) < 0.4).tolist(),
        }
    )


def released(folder: Path, kind: str) -> Release:
    """Return a release: one deal, or one for each region, or two sensitive columns."""
    table, rng = people(), np.random.default_rng(5)
    sensitive = ["job", "ill"] if kind == "two" else ["job"]
    within = ["region"] if kind == "cells" else []
    group = dealt_groups(codes_of(table, sensitive)[1], codes_of(table, within)[1], 2, rng, 12)
    file_format = "csv" if kind == "csv" else "parquet"
    return grouped_release(folder, table, sensitive, group, within=within, file_format=file_format)


@pytest.fixture(scope="module", params=["plain", "cells", "two"])
def dense(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dense:
    return Dense(released(tmp_path_factory.mktemp("groups") / "r", request.param))


# --- the reference ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Piece:
    """A number of each record, and weights of the values."""

    z: Array
    f: Array


@dataclass(frozen=True, eq=False)
class Stratum:
    """Groups and the records in them, as dense matrices."""

    c: Array  # [groups, values]
    members: Array  # [groups, records]

    @cached_property
    def n(self) -> Array:
        return self.c.sum(axis=0)

    @cached_property
    def w(self) -> Array:
        return 1 / self.c.sum(axis=1)

    @cached_property
    def inverse(self) -> Array:
        return np.linalg.pinv(self.c.T @ np.diag(self.w) @ self.c, rcond=1e-9, hermitian=True)

    @cached_property
    def solver(self) -> Array:
        """[values, records]"""
        return self.inverse @ self.c.T @ (self.w[:, None] * self.members)

    def theta(self, z: Array) -> Array:
        return self.solver @ z

    @cached_property
    def here(self) -> npt.NDArray[np.bool_]:
        """Which records are in this stratum."""
        return self.members.sum(axis=0) > 0

    @cached_property
    def own_variance(self) -> npt.NDArray[np.bool_]:
        return self.told(np.eye(self.n.size)) & (np.diag(self.inverse) <= OWN_VARIANCE)

    @cached_property
    def left(self) -> Array:
        """W (1 - the diagonal of the hat matrix)."""
        return self.w * (1 - np.diag(self.c @ self.inverse @ self.c.T * self.w))

    def weights(self, f: Array) -> Array:
        """a, with T = a s."""
        return self.w * (self.c @ self.inverse @ (self.n * f))

    def covariance_of(self, z: Array, other: Array) -> Array:
        """Return the covariance of two numbers among the records of each value."""
        whole = np.cov(z[self.here], other[self.here])[0, 1]
        own = self.theta(z * other) - self.theta(z) * self.theta(other) + np.diag(self.inverse) * whole
        return np.where(self.own_variance, own, whole)

    def told(self, f: Array) -> npt.NDArray[np.bool_]:
        wanted = self.n[:, None] * f
        reached = self.c.T @ np.linalg.pinv(self.c.T, rcond=1e-9) @ wanted
        return np.isclose(reached, wanted, atol=1e-6).all(axis=0)

    def variance(self, z: Array) -> Array:
        return np.maximum(self.covariance_of(z, z), 0)

    def residuals(self, z: Array) -> Array:
        """Return what the residual sum of squares is, what it should be, and its degrees of freedom."""
        squares = self.w @ (self.members @ z - self.c @ self.theta(z)) ** 2
        freedom = len(self.c) - np.linalg.matrix_rank(self.c)
        return np.array([squares, self.left @ self.c @ self.variance(z), freedom])


class Dense:
    """A release as rows and dense matrices."""

    def __init__(self, release: Release) -> None:
        self.release, self.rows = release, release.to_arrow().to_pylist()
        part = release.manifest.groups
        assert part is not None
        self.names, self.values, self.n = release.manifest.domain.names, all_values(release), len(self.rows)
        c = np.zeros((part.number, len(self.values)))
        for line in pq.read_table(release.folder / part.file).to_pylist():
            c[line["group"] - 1, self.values.index(tuple(line[name] for name in self.names))] = line["count"]
        members = np.zeros((part.number, self.n))
        members[[row["group"] - 1 for row in self.rows], range(self.n)] = 1
        cells = [tuple(row[name] for name in part.dealt_within) for row in self.rows]
        self.strata = []
        self._calibrations: dict[bytes, float] = {}
        self._meant: dict[str, Array] = {}
        for cell in dict.fromkeys(cells):
            own = members @ np.array([float(each == cell) for each in cells]) > 0
            self.strata.append(Stratum(c[own], members[own]))

    def meant(self, test: Claim) -> Array:
        """Return which values satisfy a test in each row, [rows, values]."""
        if test.sql not in self._meant:
            records = [[row | dict(zip(self.names, v, strict=True)) for v in self.values] for row in self.rows]
            self._meant[test.sql] = np.array([[test.truth(r) is True for r in each] for each in records], dtype=float)
        return self._meant[test.sql]

    def calibration(self, z: Array) -> float:
        key = z.tobytes()
        if key not in self._calibrations:
            parts = [s.residuals(z) for s in self.strata if not _constant(s, z)]
            found, due, freedom = np.sum(parts, axis=0) if parts else np.zeros(3)
            ratio = found / due if due > 0 else 1.0
            self._calibrations[key] = float((freedom * ratio + PRIOR_FREEDOM) / (freedom + PRIOR_FREEDOM))
        return self._calibrations[key]

    def total(self, piece: Piece) -> float:
        return sum(
            float(s.weights(piece.f) @ s.members @ piece.z) if not _constant(s, piece.z) else
            float((s.members @ piece.z) @ s.w * (s.n @ piece.f) / len(s.c)) for s in self.strata
        )  # fmt: skip

    def covariance(self, one: Piece, other: Piece, target: str) -> float:
        factor = np.sqrt(self.calibration(one.z) * self.calibration(other.z))
        added = 0.0
        for s in self.strata:
            if not (s.members @ abs(one.z)).any() or not (s.members @ abs(other.z)).any():
                continue
            if not (_constant(s, one.z) or _constant(s, other.z)):
                limit = np.sqrt(
                    s.variance(one.z) * self.calibration(one.z) * s.variance(other.z) * self.calibration(other.z)
                )
                inside = np.clip(s.covariance_of(one.z, other.z) * factor, -limit, limit)
                a, b = s.weights(one.f), s.weights(other.f)
                added += float(inside @ (s.c.T @ (a * b) - one.f * other.f * s.n))
            if target == "population":
                added += float((s.n * s.theta(one.z * other.z)) @ (one.f * other.f))
        if target == "table":
            return added
        return (added - self.total(one) * self.total(other) / self.n) * self.n / (self.n - 1)


def _constant(s: Stratum, z: Array) -> bool:
    here = z[s.here]
    return bool((here == here[0]).all())


Question = list[Piece]


def total(dense: Dense, question: Question) -> float:
    return sum(dense.total(piece) for piece in question)


def covariance(dense: Dense, one: Question, other: Question, target: str) -> float:
    found = sum(dense.covariance(a, b, target) for a in one for b in other)
    if one is other and target == "population":
        found = max(found, sum(dense.covariance(a, b, "table") for a in one for b in other))
    return found


def question(dense: Dense, where: Claim, z: Array, group: Row) -> Question:
    """Return the sum of z over the records of a group: a piece for each set of values that rows can satisfy it with."""
    own = [name for name in group if name not in dense.names]
    inside = np.array([all(row[name] == group[name] for name in own) for row in dense.rows])
    records = [dict(zip(dense.names, v, strict=True)) for v in dense.values]
    values = np.array([float(all(group.get(name, x) == x for name, x in each.items())) for each in records])
    meant = dense.meant(where)
    pieces = [
        Piece(np.where((meant == f).all(axis=1) & inside, z, 0), f * values)
        for f in np.unique(meant[meant.any(axis=1)], axis=0)
    ]
    return [piece for piece in pieces if piece.f.any()]


CONDITIONS = [
    ALL, WOMAN & (OLD | ~SOUTH), COOK | JOBLESS, WOMAN & NOT_BAKER, WOMAN | COOK,
    (~(WOMAN & COOK) | POOR) & (OLD | ~NOT_BAKER), ~(COOK & ~(SOUTH & JOBLESS)) | NO_HOURS,
]  # fmt: skip


def number_of(dense: Dense, name: str, weight: str) -> Array:
    """Return the number of each row: 0 where a factor is missing."""
    column = name.removeprefix("known ")

    def number(row: Row) -> float:
        own = 1.0 if name == "*" else row[column] if column == name else float(row[column] is not None)
        return (own or 0.0) * (row[weight] or 0.0 if weight else 1.0)

    return np.array([number(row) for row in dense.rows])


def due(dense: Dense, figure: Figure, where: Claim, group: Row, weight: str, target: str) -> tuple[float, ...]:
    """Return estimate, standard error, and the ends of the interval."""
    factor = figure.factor
    top = question(dense, where, number_of(dense, figure.top, weight), group)
    t, v = factor * total(dense, top), factor**2 * covariance(dense, top, top, target)
    if not figure.bottom and figure.partition is None:
        error = np.sqrt(max(v, 0))
        return t, error, t - Z * error, t + Z * error
    part = group if figure.bottom else {k: x for k, x in group.items() if k in (figure.partition or ())}
    bottom = question(dense, where, number_of(dense, figure.bottom or figure.top, weight), part)
    b, below, cross = (
        total(dense, bottom),
        covariance(dense, bottom, bottom, target),
        factor * covariance(dense, top, bottom, target),
    )
    if b <= 0:
        return np.nan, np.nan, -np.inf, np.inf
    r = t / b
    error = np.sqrt(max(v - 2 * r * cross + r**2 * below, 0)) / b
    a, h, c = b**2 - Z**2 * below, t * b - Z**2 * cross, t**2 - Z**2 * v
    root = np.sqrt(max(h**2 - a * c, 0))
    return (r, error, (h - root) / a, (h + root) / a) if a > 0 else (r, error, -np.inf, np.inf)


def ask_and_check(
    dense: Dense, by: tuple[str, ...], figures: list[Figure], where: Claim, weight: str, target: Any, cube: bool = False
) -> None:
    names = [f"f{k}" for k in range(len(figures))]
    select = [*by, *(f"{figure.sql} AS {name}" for figure, name in zip(figures, names, strict=True))]
    groups = f"GROUP BY {'CUBE' if cube else ''} ({', '.join(by)})" if by else ""
    answer = dense.release.sql(
        f"SELECT {', '.join(select)} FROM release WHERE {where.sql} {groups}", weight=weight, target=target
    )
    assert answer.value.size
    numbers = list(zip(*answer.numbers().values(), strict=True))
    keys = answer.groups if len(figures) > 1 else [(*group, names[0]) for group in answer.groups]
    for (*group, name), got in zip(keys, numbers, strict=True):
        own = {n: value for n, value in zip(by, group, strict=True) if value != "(all)"}
        expected = due(dense, figures[names.index(name)], where, own, weight, target)
        about = (figures[names.index(name)].sql, where.sql, own, got, expected)
        assert np.allclose(got, expected, rtol=1e-6, atol=1e-6 * max(1.0, abs(expected[0])), equal_nan=True), about


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("where", CONDITIONS, ids=lambda where: where.sql)
def test_figures_under_conditions(dense: Dense, where: Claim, target: str) -> None:
    ask_and_check(dense, (), FIGURES, where, "w" if target == "table" else "", target)
    ask_and_check(dense, ("sex",), FIGURES[:4], where, "", target)


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("by", [("job",), ("sex", "job")])
def test_groups_and_shares(dense: Dense, by: tuple[str, ...], target: str) -> None:
    ask_and_check(dense, by, [*FIGURES[:4], *shares(by)], CONDITIONS[1], "", target)
    ask_and_check(dense, by, FIGURES[:1], CONDITIONS[4], "w", target, cube=True)


@pytest.mark.parametrize("target", ["table", "population"])
def test_joint_tables_and_risks(dense: Dense, target: Any) -> None:
    """The full covariance between the cells of all groups, and what a comparison of risks makes of it."""
    table = dense.release.table(["sex", "job"], target=target)
    cells = [
        question(dense, ALL, np.ones(dense.n), {"sex": sex, "job": job})
        for sex in table.axes[0].values
        for job in table.axes[1].values
    ]
    expected = np.array([[covariance(dense, a, b, target) for b in cells] for a in cells])
    assert table.covariance() == pytest.approx(expected, rel=1e-6, abs=1e-6 * expected.max())
    assert table.value.ravel() == pytest.approx([total(dense, cell) for cell in cells], abs=1e-8)
    both = question(dense, WOMAN & COOK, np.ones(dense.n), {}), question(dense, WOMAN & ~COOK, np.ones(dense.n), {})
    risk = total(dense, both[0]) / sum(total(dense, each) for each in both)
    found = dense.release.risks("sex = 'F'", "job = 'cook'", target=target)
    rest = question(dense, ~WOMAN & COOK, np.ones(dense.n), {}), question(dense, ~WOMAN & ~COOK, np.ones(dense.n), {})
    other = total(dense, rest[0]) / sum(total(dense, each) for each in rest)
    assert found.measures[0].estimate == pytest.approx(risk - other)
