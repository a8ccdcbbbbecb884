"""The equations of a model written down once more: every published row, every true value behind it, dense matrices.

Nothing is merged, counted or cut into parts, and no code of the package is used but the matrices of the manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.special import logsumexp

import sfumato as sf
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Behind:
    """The inverse of each matrix of a release, and the matrix itself, both (outputs, values)."""

    mechanisms: tuple[Any, ...]
    solved: list[list[tuple[FloatArray, FloatArray]]]  # of each mechanism, of each sub-table

    @classmethod
    def of(cls, release: sf.Release) -> Behind:
        mechanisms = tuple(release.manifest.mechanism_values)
        units = [[np.eye(table.matrix.outputs) for table in each.tables] for each in mechanisms]
        solved = [
            [
                (table.matrix.solve(unit), table.matrix.apply_transposed(unit))
                for table, unit in zip(each.tables, own, strict=True)
            ]
            for each, own in zip(mechanisms, units, strict=True)
        ]
        return cls(mechanisms, solved)

    def __call__(self, row: Row) -> list[tuple[float, float, Row]]:
        """Return b, Pr[published | true] and the true row, for all true values behind a published row."""
        parts = [self._of(k, row) for k in range(len(self.mechanisms))]
        whole = []
        for chosen in product(*parts):
            true = {name: value for *_, values in chosen for name, value in values.items()}
            weight, chance = (float(np.prod([each[k] for each in chosen])) for k in (0, 1))
            whole.append((weight, chance, {**row, **true}))
        return whole

    def _of(self, number: int, row: Row) -> list[tuple[float, float, Row]]:
        mechanism = self.mechanisms[number]
        which = int(row[mechanism.label]) - 1 if mechanism.label else 0
        table, names = mechanism.tables[which], mechanism.domain.names
        shown = row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)
        shown = "|".join(shown) if isinstance(shown, list) else shown
        place = table.published.tolist().index(mechanism.published.index[shown])
        weights, chances = (each[place].tolist() for each in self.solved[number][which])
        values = [mechanism.domain.values[code] for code in table.codes]
        texts = [dict(zip(names, value if len(names) > 1 else (value,), strict=True)) for value in values]
        return list(zip(weights, chances, texts, strict=True))


@dataclass(frozen=True)
class Meaning:
    """What a formula means, in Python: of a row with true values in place of published ones."""

    family: str
    v: Callable[[Row], list[float]]
    y: Callable[[Row], float]
    used: Callable[[Row], bool] = lambda row: True
    offset: Callable[[Row], float] = lambda row: 0.0
    weight: str = ""
    cluster: str = ""
    stratum: str = ""


@dataclass(frozen=True, eq=False)
class Rowwise:
    """The rows of a release with all true values behind them; of a deal, with the group of each row."""

    meaning: Meaning
    b: FloatArray  # (n, K); 0 where a row has fewer true values
    chance: FloatArray  # (n, K)
    v: FloatArray  # (n, K, p)
    y: FloatArray  # (n, K)
    used: BoolArray  # (n, K)
    offset: FloatArray  # (n, K)
    omega: FloatArray  # (n,)
    unit: IntArray  # (n,) the cluster, or the row itself
    stratum: IntArray  # (n,)
    drawn: FloatArray  # (strata,) units of the whole release
    group: IntArray  # (n,)
    compositions: FloatArray  # (groups, K), of a release by groups

    @classmethod
    def of(cls, release: sf.Release, meaning: Meaning) -> Rowwise:
        """Read a release; rows that the formula leaves out by untouched columns have no true value that is used."""
        rows = release.to_arrow().to_pylist()
        groups = _Groups.of(release) if release.manifest.in_buckets else None
        told = groups.behind if groups else Behind.of(release)
        behind = [told(row) for row in rows]
        width = max(map(len, behind))
        shape = (len(rows), width)
        b, chance, y, offset, used = *np.zeros((4, *shape)), np.zeros(shape, dtype=np.bool_)
        v: Any = None
        for i, states in enumerate(behind):
            for k, (weight, likely, true) in enumerate(states):
                b[i, k], chance[i, k] = weight, likely
                if None in true.values() or not meaning.used(true):
                    continue
                used[i, k], y[i, k], offset[i, k] = True, meaning.y(true), meaning.offset(true)
                own = meaning.v(true)
                v = np.zeros((*shape, len(own))) if v is None else v
                v[i, k] = own
        stratum = np.unique([str(row[meaning.stratum]) if meaning.stratum else "" for row in rows], return_inverse=True)
        cluster = [str(row[meaning.cluster]) if meaning.cluster else str(i) for i, row in enumerate(rows)]
        names = np.array([f"{s}/{c}" if meaning.stratum else c for s, c in zip(stratum[1], cluster, strict=True)])
        unit = np.unique(names, return_inverse=True)[1]
        drawn = np.array([np.unique(unit[stratum[1] == h]).size for h in range(len(stratum[0]))], dtype=float)
        omega = np.array([float(row[meaning.weight]) if meaning.weight else 1.0 for row in rows])
        group = np.array([groups.place(row) if groups else 0 for row in rows])
        compositions = groups.compositions if groups else np.zeros((0, 0))
        return cls(
            meaning, b, chance, v, y, used, offset, omega, unit, stratum[1], drawn, group, compositions
        )  # fmt: skip

    @property
    def equations(self) -> int:
        """Of the linear predictors: one, or one for each class but the first."""
        return int(self.y.max()) if self.meaning.family == "multinomial" else 1

    def _mean(self, beta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the residual, (n, K, e), its derivative by the predictors, (n, K, e, e), and log p."""
        eta = np.einsum("nkp,ep->nke", self.v, beta.reshape(self.equations, -1)) + self.offset[..., None]
        y = self.y[..., None]
        if self.meaning.family == "linear":
            return y - eta, np.ones((*eta.shape, 1)), -((y - eta)[..., 0] ** 2) / 2
        if self.meaning.family == "poisson":
            return y - np.exp(eta), np.exp(eta)[..., None], (y * eta - np.exp(eta))[..., 0]
        shown = (y == 1 + np.arange(self.equations)).astype(float)
        total = logsumexp(np.concatenate([np.zeros_like(eta[..., :1]), eta], axis=-1), axis=-1)
        mu = np.exp(eta - total[..., None])
        curve = mu[..., None] * np.eye(self.equations) - mu[..., None] * mu[..., None, :]
        return shown - mu, curve, (shown * eta).sum(axis=-1) - total

    def psi(self, beta: FloatArray) -> FloatArray:
        """Return omega psi of each row and true value, (n, K, q)."""
        residual = self._mean(beta)[0] * self.used[..., None]
        psi = (residual[..., None] * self.v[:, :, None]).reshape(*self.b.shape, -1)
        return psi * self.omega[:, None, None]

    def score(self, beta: FloatArray) -> FloatArray:
        """Return U."""
        return np.asarray(np.einsum("nk,nkq->q", self.b, self.psi(beta)))

    def information(self, beta: FloatArray) -> FloatArray:
        """Return H."""
        curve = self._mean(beta)[1]
        weight = self.b * self.used * self.omega[:, None]
        H = np.einsum("nk,nkef,nkp,nkr->epfr", weight, curve, self.v, self.v)
        return H.reshape(beta.size, beta.size)

    def noise(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance of U given the table, and where the rows are a sample."""
        psi = self.psi(beta)
        if self.compositions.size:
            return self._noise_of_deal(psi)
        own = np.einsum("nk,nkq->nq", self.b, psi)
        of_states = np.einsum("nk,nkq,nkr->qr", self.b, psi, psi)
        return own.T @ own - of_states, self._of_units(own)

    def _of_units(self, own: FloatArray) -> FloatArray:
        """Return sum_h n_h/(n_h - 1) sum_c (z_hc - mean_h)(..)' of survey strata; without them, products alone."""
        z = np.zeros((self.unit.max() + 1, own.shape[1]))
        np.add.at(z, self.unit, own)
        if not self.meaning.stratum:
            return z.T @ z
        total = np.zeros((own.shape[1], own.shape[1]))
        of_unit = np.zeros(len(z), dtype=int)
        of_unit[self.unit] = self.stratum
        for h, n in enumerate(self.drawn):
            apart = z[of_unit == h] - z[of_unit == h].sum(axis=0) / n
            total += n / (n - 1) * apart.T @ apart
        return total

    def _noise_of_deal(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both by the formulas of a deal, group by group and value by value."""
        a, C, q = self.b, self.compositions, psi.shape[2]
        records = C.sum(axis=0)
        means = [np.einsum("n,nkq->kq", a[:, x], psi) / max(records[x], 1) for x in range(C.shape[1])]
        of_states = sum(records[x] * np.outer(mean[x], mean[x]) for x, mean in enumerate(means))
        within = np.einsum("nk,nkq,nkr->qr", a, psi, psi)
        between = np.zeros((q, q))
        for g in range(len(C)):
            inside = self.group == g
            own = a[inside][0]
            left = own @ psi[inside].sum(axis=0) - sum(C[g, x] * own @ mean for x, mean in enumerate(means))
            between += np.outer(left, left)
        return between - (within - of_states), between + of_states

    def log_likelihood(self, beta: FloatArray) -> float:
        """Return sum omega log sum_Y Pr[published | Y] p(Y | v), but for a constant.

        The values of an outcome Y are alike here: what was published has the mean of their chances. With single values
        in place of classes of them that is a constant, for matrices that treat all values of a class alike.
        """
        alike = (self.y[:, :, None] == self.y[:, None]).sum(axis=2)
        return float(self.omega @ logsumexp(self._mean(beta)[2], b=self.chance / alike, axis=1))

    def direction(self, beta: FloatArray, j: int) -> FloatArray:
        """Return e: coefficient j moves by one, and all others so that their equations stay solved."""
        others, H = np.arange(beta.size) != j, self.information(beta)
        e = np.zeros(beta.size)
        e[others] = -np.linalg.solve(H[np.ix_(others, others)], H[others, j])
        e[j] = 1
        return e

    def statistic(self, beta: FloatArray, j: int, target: str) -> float:
        """Return T_j with coefficient j held where it is, and all others solved for."""
        others = np.arange(beta.size) != j
        held = beta.copy()
        for _ in range(25):
            H = self.information(held)
            step = np.linalg.solve(H[np.ix_(others, others)], self.score(held)[others])
            held[others] += step / max(1.0, np.abs(step).max())
        e = self.direction(held, j)
        return float(e @ self.score(held) / np.sqrt(e @ self.noise(held)[target == "population"] @ e))


@dataclass(frozen=True, eq=False)
class _Groups:
    """The table of groups of a release: a = W C (C'WC)^-1 diag(n)."""

    values: list[str]
    number: dict[Any, int]
    compositions: FloatArray
    weights: FloatArray
    column: str
    name: str

    @classmethod
    def of(cls, release: sf.Release) -> _Groups:
        part = release.manifest.buckets
        (name,) = release.manifest.domain.names
        lines = pq.read_table(release.folder / part.file).to_pylist()
        values = list(release.manifest.domain.values)
        number = {group: k for k, group in enumerate(dict.fromkeys(line[part.group_column] for line in lines))}
        C = np.zeros((len(number), len(values)))
        for line in lines:
            C[number[line[part.group_column]], values.index(line[name])] += line[part.count_column]
        held = C.sum(axis=0) > 0
        W, own = np.diag(1 / C.sum(axis=1)), C[:, held]
        weights = np.zeros_like(C)
        weights[:, held] = W @ own @ np.linalg.inv(own.T @ W @ own) @ np.diag(own.sum(axis=0))
        return cls(values, number, C, weights, part.group_column, name)

    def place(self, row: Row) -> int:
        return self.number[row[self.column]]

    def behind(self, row: Row) -> list[tuple[float, float, Row]]:
        weights = self.weights[self.place(row)]
        return [(w, np.nan, {**row, self.name: value}) for w, value in zip(weights.tolist(), self.values, strict=True)]
