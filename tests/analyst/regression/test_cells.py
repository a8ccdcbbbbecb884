"""Cells of a model, against sums over every published row and every true value, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.analyst.regression.model import model_of
from sfumato.analyst.regression.problem import Cells
from sfumato.analyst.regression.reading import StreamSource, source_of
from sfumato.errors import UsageError
from tests.analyst.regression.releases import DIAGNOSES, people, release_of
from tests.analyst.regression.rowwise import Behind, Row
from tests.constants import set_constants


@dataclass(frozen=True)
class Case:
    """A formula, and what it means, said in Python: the row with true values in place of published ones."""

    formula: str
    family: str
    v: Callable[[Row], list[float]]
    y: Callable[[Row], float]
    used: Callable[[Row], bool] = lambda row: True
    where: str = ""
    weights: str = ""


def one(condition: bool) -> float:
    return float(condition)


CASES = [
    Case(
        "diagnosis == 'flu' ~ age + C(region) * sex",
        "logistic",
        lambda r: [1, r["age"], one(r["region"] == "S"), one(r["region"] == "W"), one(r["sex"] == "M"),
                   one(r["region"] == "S" and r["sex"] == "M"), one(r["region"] == "W" and r["sex"] == "M")],
        lambda r: one(r["diagnosis"] == "flu"),
    ),
    Case(
        "stay ~ C(diagnosis, reference='cold') : sex + I(age / 10)",
        "linear",
        lambda r: [1, r["age"] / 10, one(r["sex"] == "M"),
                   *(one(r["diagnosis"] == d and r["sex"] == s)
                     for d in DIAGNOSES if d != "cold" for s in ("F", "M"))],
        lambda r: r["stay"],
        weights="weight",
    ),
    Case(
        "grade == '3' ~ C(diagnosis, sets={'lung': ['flu', 'cold', 'asthma']}, others='rest') + age",
        "linear",
        lambda r: [1, one(r["diagnosis"] not in ("flu", "cold", "asthma")), r["age"]],
        lambda r: one(r["grade"] == "3"),
        lambda r: r["sex"] == "F" or r["diagnosis"] == "HIV",
        where="sex = 'F' OR diagnosis = 'HIV'",
    ),
    Case(
        "CAST(grade AS DOUBLE) ~ 0 + bins(age, 40, 60) + C(diagnosis IN ('HIV', 'gout'))",
        "linear",
        lambda r: [one(r["age"] < 40), one(40 <= r["age"] < 60), one(r["age"] >= 60),
                   one(r["diagnosis"] in ("HIV", "gout"))],
        lambda r: float(r["grade"]),
        lambda r: r["age"] > 30,
        where="age > 30",
    ),
]  # fmt: skip


def slow_sums(release: sf.Release, case: Case, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return U and V_pop with the residual Y - v'beta, over every row."""
    score, spread = np.zeros(beta.size), np.zeros((beta.size, beta.size))
    behind = Behind.of(release)
    for row in release.to_arrow().to_pylist():
        omega, own = float(row[case.weights]) if case.weights else 1.0, np.zeros(beta.size)
        for weight, _, true in behind(row):
            if None not in true.values() and case.used(true):
                v = np.array(case.v(true))
                own += omega * weight * v * (case.y(true) - v @ beta)
        score += own
        spread += np.outer(own, own)
    return score, spread


def fast_sums(batches: list[Cells], beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score, spread = np.zeros(beta.size), np.zeros((beta.size, beta.size))
    for cells in batches:
        pattern = np.arange(cells.count.size) if cells.pattern is None else cells.pattern
        residual = cells.outcome - cells.design @ beta
        psi = residual[..., None] * cells.design
        psi = psi if cells.used is None else psi * cells.used[..., None]
        psi = np.broadcast_to(psi, (psi.shape[0], cells.weights.shape[1], beta.size))
        own = np.einsum("rk,rkp->rp", cells.weights, psi[pattern])
        score += cells.count @ own
        spread += (own * cells.squares[:, None]).T @ own
    return score, spread


@pytest.mark.parametrize("kind", ["uniform", "fine-grain", "small-domain", "subset", "compound", "several"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.formula[:20])
def test_cells_add_up_to_the_rows(kind: str, case: Case, tmp_path: Path) -> None:
    release = release_of(kind, tmp_path, people(120))
    model = model_of(release, case.formula, case.family, where=case.where, weights=case.weights)
    beta = np.random.default_rng(1).normal(size=len(model.columns))
    score, spread = slow_sums(release, case, beta)
    for batches in (list(source_of(model).batches()), list(StreamSource(model).batches())):
        found = fast_sums(batches, beta)
        assert found[0] == pytest.approx(score, rel=1e-9, abs=1e-7)
        assert found[1] == pytest.approx(spread, rel=1e-9, abs=1e-6)


def test_batches_are_cut_where_numbers_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, case = release_of("several", tmp_path), CASES[1]
    model = model_of(release, case.formula, case.family)
    beta = np.random.default_rng(1).normal(size=len(model.columns))
    whole = fast_sums(list(source_of(model).batches()), beta)
    set_constants(monkeypatch, "sfumato.analyst.regression", DESIGN_AT_ONCE=2_000, DESIGNS_KEPT=1)
    source = source_of(model)
    batches = list(source.batches())
    assert len(batches) > 3
    assert max(cells.design.size for cells in batches) <= 2_000
    assert fast_sums(batches, beta)[0] == pytest.approx(whole[0])
    assert fast_sums(list(source.batches()), beta)[1] == pytest.approx(whole[1])


def test_missing_values_of_hidden_columns_are_those_of_the_truth(tmp_path: Path) -> None:
    """Rows without an untouched value are left out; a missing hidden one is a state that adds nothing."""
    release = release_of("uniform", tmp_path, people(150, missing=True))
    case = CASES[0]
    model = model_of(release, case.formula, case.family)
    assert model.states.size == 3
    beta = np.random.default_rng(1).normal(size=len(model.columns))
    (cells,) = source_of(model).batches()
    assert cells.used is not None
    assert cells.used.sum() == 2
    score, spread = slow_sums(release, case, beta)
    assert fast_sums([cells], beta)[0] == pytest.approx(score)
    assert fast_sums([cells], beta)[1] == pytest.approx(spread)


def test_one_value_against_all_others_has_two_states_and_two_classes(tmp_path: Path) -> None:
    model = model_of(release_of("uniform", tmp_path), "diagnosis == 'flu' ~ 1", "logistic")
    (cells,) = source_of(model).batches()
    assert cells.weights.shape == (2, 2)
    assert cells.published is not None
    assert sorted(cells.published.tolist()) == [0, 1]
    # P = q + p on the diagonal, so that b = 1{shown}/p - k q/p for a state of k values
    matrix = model.states.parts[0].mechanism.matrix
    p, q = matrix.diagonal[0] - matrix.least_chance[0], matrix.least_chance[0]
    assert cells.weights[cells.published == 0, 0] == pytest.approx([(1 - q) / p])
    assert cells.weights[cells.published == 1, 0] == pytest.approx([-q / p])


def test_clusters_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(release_of("uniform", tmp_path), "diagnosis == 'flu' ~ age", "logistic", cluster="person")
    set_constants(monkeypatch, "sfumato.analyst.regression", CELLS_AT_ONCE=97, DESIGNS_KEPT=0)
    for source in (source_of(model), StreamSource(model)):
        rows = [np.bincount(cells.cluster, cells.count) for cells in source.batches() if cells.cluster is not None]
        assert len(rows) > 5
        assert {count for batch in rows for count in batch.tolist()} <= {0, 2}


def test_levels_are_those_of_the_manifest(tmp_path: Path) -> None:
    rows = people(200)
    kept = rows.filter(np.array([value != "gout" for value in rows["diagnosis"].to_pylist()]))
    model = model_of(release_of("uniform", tmp_path, kept), "stay ~ C(diagnosis)", "linear")
    assert [column.name for column in model.columns] == [
        "intercept",
        *(f"diagnosis {value}" for value in DIAGNOSES[1:]),
    ]


REFUSED = [
    ("diagnosis ~ age", "logistic", {}, "has the levels flu, HIV"),
    ("diagnosis == 'flu' ~ C(diagnosis)", "logistic", {}, "follows from C"),
    ("diagnosis == 'flu' ~ diagnosis == 'HIV'", "logistic", {}, "follows from"),
    ("diagnosis == 'nothing' ~ age", "logistic", {}, "false for every value"),
    ("stay ~ center(grade)", "linear", {}, "needs a number"),
    ("stay ~ age", "logistic", {}, "must be 0 or 1"),
    ("stay ~ age", "cox", {}, "no family 'cox'"),
    ("stay ~ ages", "linear", {}, "no column 'ages'"),
    ("stay ~ age", "linear", {"weights": "diagnosis"}, "is randomized: the published value is not the record's own"),
    ("stay ~ age", "linear", {"cluster": "diagnosis"}, "is randomized: the published value is not the record's own"),
    ("stay ~ age", "linear", {"offset": "region"}, "is no number"),
    ("stay ~ age", "linear", {"where": "age > 1000"}, "No published row is left"),
    ("stay ~ C(region, reference='E')", "linear", {}, "'E' is no level"),
    ("stay ~ CASE WHEN diagnosis = 'flu' AND age > 40 THEN 1 ELSE 0 END", "linear", {}, "mixes 'diagnosis'"),
    ("stay ~ random()", "linear", {}, "names no column"),
    ("stay ~ md5(region)", "linear", {}, "not possible in a formula"),
    ("C(stay) ~ age / 10", "multinomial", {}, "is arithmetic"),
]


@pytest.mark.parametrize(("formula", "family", "more", "said"), REFUSED)
def test_refusals(formula: str, family: str, more: Row, said: str, shared: sf.Release) -> None:
    with pytest.raises(UsageError, match=said) as told:
        list(source_of(model_of(shared, formula, family, **more)).batches())
    assert told.value.hint


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    return release_of("uniform", tmp_path_factory.mktemp("shared"), people(100))


def test_the_sub_table_is_no_covariate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tells the sub-table of a row"):
        model_of(release_of("small-domain", tmp_path), "stay ~ C(sub_table)", "linear")


def test_values_that_no_matrix_tells_are_named(tmp_path: Path) -> None:
    """Two values without retention are told together, and not apart."""
    from dataclasses import replace

    release = release_of("fine-grain", tmp_path, people(100))
    part = release.manifest.mechanisms[0]
    noise = [str(2**64 // 10)] * 2 + ["0"] * 8
    table = part.sub_tables[0].model_copy(
        update={"noise": part.sub_tables[0].noise.model_copy(update={"weights": tuple(noise)})}
    )
    manifest = release.manifest.model_copy(update={"mechanisms": (part.model_copy(update={"sub_tables": (table,)}),)})
    blurred = replace(release, manifest=manifest)
    with pytest.raises(UsageError, match="does not tell 'flu', 'HIV'"):
        model_of(blurred, "stay ~ C(diagnosis)", "linear")
    model = model_of(blurred, "stay ~ C(diagnosis, sets={'both': ['flu', 'HIV']})", "linear")
    assert model.states.parts[0].told.all()
