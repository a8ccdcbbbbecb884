"""Cells made slowly and plainly from a description: columns, matrices, terms of the design, the outcome."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.analyst.regression.buckets import classical_weights, dealt_weights
from sfumato.analyst.regression.families import Family, Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.problem import Buckets, Cells
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.whole import Whole

VALUES = json.loads((Path(__file__).parent / "values.json").read_text())
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in VALUES["cases"]}

Case = dict[str, Any]


def family_of(case: Case) -> Family:
    """Return the family of a case."""
    if case["family"] == "multinomial":
        return Multinomial(tuple(map(str, range(case["classes"]))))
    return {"logistic": Logistic(), "linear": Linear(), "poisson": Poisson()}[case["family"]]


def source_of(case: Case, *, whole_patterns: bool = False) -> Whole:
    """Return the source of a case; `whole_patterns` puts cells that share a design together."""
    terms = case["design"]
    names = tuple(_name(term) for term in terms)
    indicator = tuple("channel" in term for term in terms)
    cells, buckets = cells_of(case), None
    if "compositions" in case:
        buckets = buckets_of(case)
    if whole_patterns:
        cells = shared(cells)
    return Whole(names, indicator, family_of(case), cells, buckets)


def buckets_of(case: Case) -> Buckets:
    """Return the buckets of a case."""
    C = np.array(case["compositions"], dtype=float)
    return Buckets(C, tuple(map(str, range(C.shape[1]))))


def _name(term: Case) -> str:
    if "one" in term:
        return "one"
    if "column" in term:
        return str(term["column"])
    if "product" in term:
        return ":".join(_name(part) for part in term["product"])
    return f"channel {term['channel']} in {term['values']}"


def cells_of(case: Case) -> Cells:
    """Return one cell for each of the case's, the states being all combinations of the channels' values."""
    columns = case["cells"]
    R = len(columns["count"])
    if "compositions" in case:
        states = [(k,) for k in range(case["m"])]
        group = np.array(columns["group"])
        weights, naive = dealt_weights(buckets_of(case))[group], classical_weights(buckets_of(case))[group]
        chances = published = None
    else:
        channels = case["channels"]
        states = list(itertools.product(*(range(channel["m"]) for channel in channels)))
        told = [_told(channel, columns) for channel in channels]
        weights, chances = (
            np.array([[_joint(t, r, s) for s in states] for r in range(R)]) for t in zip(*told, strict=True)
        )
        published = np.array([states.index(tuple(columns[c["column"]][r] for c in channels)) for r in range(R)])
        group = naive = None
    terms = case["design"]
    design = np.array([[[_term(term, columns, r, s) for term in terms] for s in states] for r in range(R)], dtype=float)
    outcome = np.array([[_outcome(case["outcome"], columns, r, s) for s in states] for r in range(R)], dtype=float)
    used = None
    if "use" in case:
        used = np.array([[_used(case["use"], s) for s in states] for _ in range(R)])
    offset = None
    if "offset" in case:
        offset = np.array(columns[case["offset"]["column"]])[:, None]
    count = np.array(columns["count"], dtype=float)
    if (design == design[:, :1]).all():
        design = design[:, :1]
    omega = np.array(columns["weight"]) if "weight" in columns else np.ones(R)
    return Cells(
        weights=weights,
        design=design,
        outcome=outcome,
        count=count * omega,
        squares=count * omega**2,
        published=published,
        naive=naive,
        chances=chances,
        used=used,
        offset=offset,
        group=group,
    )


def _joint(told: tuple[FloatArray, ...], r: int, state: tuple[int, ...]) -> float:
    return float(np.prod([t[r, k] for t, k in zip(told, state, strict=True)]))


def _told(channel: Case, columns: Case) -> tuple[FloatArray, FloatArray]:
    """Return P^-1[k, y] and P[y, k] for each row, by its sub-table."""
    R, m = len(columns["count"]), channel["m"]
    inverse, chance = np.zeros((R, m)), np.zeros((R, m))
    for r in range(R):
        table = channel["tables"][columns[channel["label"]][r] if channel["label"] else 0]
        P, values = np.array(table["P"]), table["values"]
        y = values.index(columns[channel["column"]][r])
        inverse[r, values], chance[r, values] = np.linalg.inv(P)[:, y], P[y]
    return inverse, chance


def _term(term: Case, columns: Case, r: int, state: tuple[int, ...]) -> float:
    if "one" in term:
        return 1.0
    if "column" in term:
        return float(columns[term["column"]][r])
    if "product" in term:
        return float(np.prod([_term(part, columns, r, state) for part in term["product"]]))
    return float(state[term["channel"]] in term["values"])


def _outcome(outcome: Case, columns: Case, r: int, state: tuple[int, ...]) -> float:
    if "column" in outcome:
        return float(columns[outcome["column"]][r])
    if "class_of" in outcome:
        return float(state[outcome["class_of"]])
    if "scores" in outcome:
        return float(outcome["scores"][state[outcome["channel"]]])
    return float(state[outcome["channel"]] in outcome["values"])


def _used(use: Case, state: tuple[int, ...]) -> bool:
    return state[use["channel"]] in use["values"]


def shared(cells: Cells) -> Cells:
    """Return the cells with one row of the design for those that have it in common."""
    if cells.group is not None or cells.used is not None or cells.offset is not None:
        return cells
    R = cells.count.size
    key = np.hstack([cells.design.reshape(R, -1), cells.outcome.reshape(R, -1)])
    _, first, pattern = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return replace(cells, design=cells.design[first], outcome=cells.outcome[first], pattern=pattern.ravel())
