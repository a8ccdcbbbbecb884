"""How values are written in JSON: in plans and manifests alike. Integers above 2^53 and fractions are strings."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.claims.guarantee import Guarantee
from sfumato.values.attributes import Domain, SensitiveDomain, Value
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Mechanism, SubTable
from sfumato.values.requirement import Bound


def number(x: float) -> float | None:
    """Return the number, or None for an infinite or undefined one (JSON has neither)."""
    return x if math.isfinite(x) else None


def value(v: Value | tuple[Value, ...]) -> Any:
    """Return a domain value; a combination of several becomes a list."""
    return list(v) if isinstance(v, tuple) else v


def domains(domain: SensitiveDomain) -> list[dict[str, Any]]:
    """Return each sensitive column with its values."""
    return [{"name": part.name, "values": list(part.values)} for part in domain.parts]


def read_domains(raw: list[dict[str, Any]]) -> SensitiveDomain:
    """Return what `domains` wrote."""
    return SensitiveDomain(tuple(Domain(part["name"], tuple(part["values"])) for part in raw))


def bound(b: Bound) -> dict[str, str | None]:
    """Return a bound; fractions as "p/q"."""
    return {
        "gamma": None if b.gamma is None else str(b.gamma),
        "rho1": None if b.rho1 is None else str(b.rho1),
        "rho2": None if b.rho2 is None else str(b.rho2),
        "given": b.given,
    }


def read_bound(raw: dict[str, Any]) -> Bound:
    """Return what `bound` wrote."""
    gamma, rho1, rho2 = (None if raw[key] is None else Fraction(raw[key]) for key in ("gamma", "rho1", "rho2"))
    return Bound(gamma, rho1, rho2, raw["given"])


def sub_tables(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return each sub-table: its values by their numbers in the domain (null: all), its matrix, and its bounds."""
    return [
        {
            "values": None if mechanism.is_whole else table.codes.tolist(),
            **matrix(table.matrix),
            "bounds": [bound(b) for b in (table.bounds[:1] if len(set(table.bounds)) == 1 else table.bounds)],
        }
        for table in mechanism.tables
    ]


def read_mechanism(parts: list[dict[str, Any]], tables: list[dict[str, Any]], label: str | None) -> Mechanism:
    """Return what `domains` and `sub_tables` wrote."""
    domain = read_domains(parts)
    return Mechanism(domain, tuple(_read_sub_table(raw, domain.size) for raw in tables), label)


def _read_sub_table(raw: dict[str, Any], size: int) -> SubTable:
    codes = np.array(range(size) if raw["values"] is None else raw["values"], dtype=np.int32)
    bounds = tuple(read_bound(b) for b in raw["bounds"])
    return SubTable(codes, read_matrix(raw), bounds * codes.size if len(bounds) == 1 else bounds)


def guarantee(g: Guarantee) -> dict[str, Any]:
    """Return a guarantee."""
    return {**vars(g), "directions": list(g.directions), "limits": list(g.limits)}


def read_guarantee(raw: dict[str, Any]) -> Guarantee:
    """Return what `guarantee` wrote."""
    return Guarantee(**{**raw, "directions": tuple(raw["directions"]), "limits": tuple(raw["limits"])})


def matrix(of_table: Matrix) -> dict[str, Any]:
    """Return the integers: one noise weight where all columns are equal, or one for each value, or all columns."""
    if isinstance(of_table, DenseMatrix):
        return {"columns": [list(map(str, column)) for column in of_table.columns.tolist()]}
    assert isinstance(of_table, PerturbationMatrix)
    weights = of_table.noise[:1] if of_table.is_uniform else of_table.noise
    return {"noise": {"size": of_table.size, "weights": list(map(str, weights.tolist()))}}


def read_matrix(raw: dict[str, Any]) -> Matrix:
    """Return what `matrix` wrote."""
    if (columns := raw.get("columns")) is not None:
        return DenseMatrix(np.array([[int(weight) for weight in column] for column in columns], dtype=np.uint64))
    noise = raw["noise"]
    weights = np.array([int(q) for q in noise["weights"]], dtype=np.uint64)
    if weights.size not in (1, noise["size"]):
        raise ValueError(f"{weights.size} noise weights for {noise['size']} values")
    return PerturbationMatrix(np.broadcast_to(weights, (noise["size"],)))
