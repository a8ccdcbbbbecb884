"""Large domains: counted sparsely, refused with their price, estimated and called so; fixing columns shrinks them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import Infeasible, PolicyError, UsageError
from sfumato.methods.response.estimating import NO_GUARANTEE, likely_worst
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.joint import ARRAYS, MOST_CELLS, Channel, JointTable
from sfumato.methods.response.problem import pose
from sfumato.methods.response.request import Axes
from sfumato.methods.response.risks import Link, Posterior, Reconstruction
from sfumato.methods.response.solver import solve
from sfumato.publisher.policy import Policy
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, simulation
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.methods.test_response_checked import axis_names
from tests.methods.test_response_plan import AS_PUBLISHED, planned

ROWS = 3000
VALUES = 4000
ROLES = {"zip": "quasi_identifier", "born": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}


LARGE = ROLES | {"sex": f"quasi_identifier; domain = {['F', 'M', *map(str, range(20))]}"}
"""Roles under which the quasi-identifiers alone have too many combinations."""


def wide(rows: int = ROWS) -> pa.Table:
    """Return people of whom nearly each has a zip code and a day of birth of its own."""
    rng = simulation(2)
    sex = rng.integers(0, 2, rows)
    disease = (rng.integers(0, 3, rows) + sex * (rng.random(rows) < 0.4)) % 3
    return pa.table(
        {
            "zip": rng.integers(0, VALUES, rows).tolist(),
            "born": [f"day {k}" for k in rng.integers(0, VALUES, rows)],
            "sex": [("F", "M")[k] for k in sex],
            "disease": [("cancer", "flu", "gout")[k] for k in disease],
        }
    )


def asked(requirement: str = "l = 2", method: str = "", roles: dict[str, str] | None = None) -> Policy:
    return make_policy(roles or ROLES, requirement, "randomized-response", "", method)


def counted(rows: pa.Table, policy: Policy | None = None) -> Profile:
    return sf.profile(sf.scan(rows, policy or asked()))


# --- counting ---------------------------------------------------------------------------------------------------------


def test_combinations_that_occur_are_counted_whatever_the_domain() -> None:
    found = counted(wide())
    assert found.domain.size > 10_000_000
    assert found.rows == ROWS
    labels = [part.labels for part in found.domain.parts]
    cells = {
        tuple(own[c] for own, c in zip(labels, codes, strict=True)): int(n)
        for codes, n in zip(found.cells.tolist(), found.numbers, strict=True)
    }
    assert cells == Counter(tuple(map(str, row.values())) for row in wide().to_pylist())
    assert found.cells.tolist() == sorted(found.cells.tolist())


def test_the_dense_counts_are_the_same() -> None:
    found = counted(wide().select(["sex", "disease"]), asked(roles={k: ROLES[k] for k in ("sex", "disease")}))
    truth = Counter(zip(wide()["sex"].to_pylist(), wide()["disease"].to_pylist(), strict=True))
    assert found.counts.tolist() == [truth[value] for value in found.domain.values]  # type: ignore[index]


def test_a_sensitive_domain_has_a_largest_size() -> None:
    roles = {"sex": "quasi_identifier", "disease": "other", "zip": "sensitive", "born": "sensitive"}
    with pytest.raises(PolicyError, match=r"'zip / born' has [\d,]+ combinations of values, more than 10,000,000"):
        counted(wide(8000), asked(roles=roles))


# --- a refusal with its price -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["", AS_PUBLISHED, 'risk = "link"'])
def test_too_large_a_domain_is_refused_with_memory_and_time(method: str) -> None:
    with pytest.raises(Infeasible, match=r"cells, above 67,108,864: .* GB and .* h, with .* s") as error:
        planned(wide(), asked(method=method, roles=LARGE))
    assert "A risk that is not evaluated is not guaranteed, so nothing is published" in error.value.message
    for way in ("Bin or merge values", "fewer columns", "fix some", "`sfumato risk`", "no guarantee"):
        assert way in error.value.hint


def test_the_page_tells_how_long_the_largest_domains_take() -> None:
    """2^26 cells of one record, by the estimate that a refusal tells too."""
    page = (Path(__file__).parents[2] / "docs" / "methods" / "proofs" / "randomized-response.md").read_text(
        encoding="utf-8"
    )
    text = " ".join(page.split())
    hours = []
    for sizes in ((4,) * 13, (2,) * 26):
        table = JointTable((*sizes, 2), np.zeros((1, len(sizes)), dtype=np.int64), np.ones((1, 2)))
        assert table.evaluated_cells(dense=False) == MOST_CELLS
        hours.append(table.search_seconds(dense=False) / 3600)
    assert hours[1] == pytest.approx(4 * hours[0])
    squared = 3600 * hours[0] / 13**2
    assert f"with {ARRAYS * 8 * MOST_CELLS / 1e9:.1f} GB at the most" in text
    assert f"about {squared:.1f} m^2 seconds, so half an hour for 9, {hours[0]:.1f} hours for 13 of 4 values" in text
    assert f"and {hours[1]:.1f} hours for 26 of 2 values" in text
    assert squared * 81 == pytest.approx(1800, rel=0.06)


def test_what_is_published_as_it_is_makes_no_domain_large(tmp_path: Path) -> None:
    """Of 16 million pairs of zip code and district 30 occur: with both fixed there is a plan, and its risk holds."""
    zips = simulation(3).integers(0, 30, ROWS)
    rows = wide().set_column(0, "zip", pa.array(zips)).set_column(1, "born", pa.array(7 * zips % VALUES))
    domain = f"quasi_identifier; domain = {list(range(VALUES))}"
    roles = ROLES | {"zip": domain, "born": domain}
    with pytest.raises(Infeasible, match=r"96,000,000 cells"):
        planned(rows, asked(roles=roles))
    policy = asked("risk_limit = 0.45", 'fixed = ["zip", "born"]', roles)
    made = planned(rows, policy)
    assert made.figures.cells == 30 * 2 * 3
    assert [a.name for a in made.figures.attributes] == ["zip", "born", "sex", "disease"]
    assert [a.diagonal for a in made.figures.attributes[:2]] == [1, 1]
    assert {len(cell.values) for cell in made.figures.binding} == {4}
    assert made.figures.risks["posterior"] <= 0.45
    release = sf.publish(sf.scan(rows, policy), made, tmp_path / "r", key=SecretKey.from_seed(1))
    assert "Published untouched: zip, born." in release.manifest.guarantee.limits
    assert Counter(release.to_arrow()["zip"].to_pylist()) == Counter(rows["zip"].to_pylist())


# --- axes -------------------------------------------------------------------------------------------------------------


def small(seed: int, rows: int = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 4)
    columns = [rng.integers(0, d, rows) % rng.integers(1, d + 1, rows) for d in sizes]
    return pa.table({name: [str(v) for v in column] for name, column in zip(ROLES, columns, strict=True)})


@pytest.mark.parametrize("risk", ["reconstruction", "posterior", "link"])
def test_a_shared_axis_changes_no_risk(risk: Any) -> None:
    """Evaluated with an axis for each column, and with one for those that stay as they are."""
    kind = {"reconstruction": Reconstruction, "posterior": Posterior, "link": Link}[risk]
    rng = np.random.default_rng(8)
    for seed in range(15):
        profile = counted(small(seed))
        shared = [name for name in profile.quasi_identifiers if rng.random() < 0.5]
        whole, merged = Axes.of(profile), Axes.of(profile, shared)
        stated = {
            name: Channel.from_diagonal(d, 1.0 if name in shared else rng.uniform(1 / d + 0.05, 1))
            for name, d in zip(axis_names(whole), whole.table.sizes, strict=True)
        }
        of_merged = tuple(
            stated.get(n, Channel(d, 1.0, 0.0)) for n, d in zip(axis_names(merged), merged.table.sizes, strict=True)
        )
        assert merged.channels(of_merged) == tuple(stated.values())
        own, other = (
            {
                labels: value
                for labels, value in zip(
                    axes.labels(point.cell_codes(np.arange(point.values.size))), point.values, strict=True
                )
                if value > 0
            }
            for axes, point in (
                (whole, kind(whole.table, tuple(stated.values()))),
                (merged, kind(merged.table, of_merged)),
            )
        )
        assert own.keys() == other.keys()
        assert [own[key] for key in own] == pytest.approx([other[key] for key in own], rel=1e-12)


@pytest.mark.parametrize("risk", ["reconstruction", "posterior"])
def test_a_shared_axis_changes_no_optimum(risk: Any) -> None:
    kind = {"reconstruction": Reconstruction, "posterior": Posterior}[risk]
    for seed in range(8):
        profile = counted(small(seed, 2000))
        table = Axes.of(profile).table
        still, noise = ([Channel.from_diagonal(d, p or 1 / d) for d in table.sizes] for p in (1.0, 0.0))
        ends = still, (still[0], noise[1], still[2], noise[3])  # what may be randomized: not at all, and entirely
        limit = float(np.mean([kind(table, tuple(end)).values.max() for end in ends]))
        whole = solve(pose(table, limit, risk=risk, fixed=[0, 2]))
        merged = solve(pose(Axes.of(profile, ["zip", "sex"]).table, limit, risk=risk, fixed=[1]))
        assert merged.kappa == pytest.approx(whole.kappa, rel=1e-6)
        assert merged.risk == pytest.approx(whole.risk, rel=1e-6)


# --- estimates --------------------------------------------------------------------------------------------------------


def test_estimates_agree_with_exact_risks() -> None:
    """Cell by cell, within 4.5 standard errors (some 300 figures: a false alarm in 500 runs); and nothing is missed."""
    distance = []
    for seed in range(8):
        profile = counted(small(seed))
        kept = {"zip": 0.6, "sex": 0.7, "disease": 0.8}
        found = sf.estimate_risk(profile, kept, cells=200, samples=2000, seed=seed)
        axes = Axes.of(profile, ["born"])
        stated = [
            Channel.from_diagonal(d, kept.get(n, 1.0)) for n, d in zip(axis_names(axes), axes.table.sizes, strict=True)
        ]
        channels = tuple(stated)
        assert len(found.cells) == int((axes.table.counts > 0).sum())
        for risk in (Reconstruction(axes.table, channels), Link(axes.table, channels)):
            exact = dict(zip(axes.labels(risk.cell_codes(np.arange(risk.values.size))), risk.values, strict=True))
            for cell in found.cells:
                error = getattr(cell, f"{risk.name}_error")
                distance.append((getattr(cell, risk.name) - exact[cell.values]) / max(error, 1e-12))
        largest = Posterior(axes.table, channels).values.max()
        assert max(cell.posterior for cell in found.cells) <= largest * (1 + 1e-12)
        records = Counter(tuple(row[name] for name in ROLES) for row in small(seed).to_pylist())
        assert {cell.values: cell.records for cell in found.cells} == records
    assert np.abs(distance).max() < 4.5


def test_the_worst_cells_are_among_those_looked_at(real_data: Callable[[str], Path]) -> None:
    """Adult, 1,507 cells: of 20 that are looked at one is the worst, for either risk and any l."""
    rows = pq.read_table(real_data("adult_complete_45222.parquet"))
    rows = rows.filter(pc.equal(rows["split"], "train"))
    names = ["education", "marital_status", "sex", "race", "workclass"]
    roles = {**dict.fromkeys(names[:-1], "quasi_identifier"), names[-1]: "sensitive"}
    table = Axes.of(counted(rows.select(names), asked(roles=roles))).table
    for limit in (1 / 2, 1 / 3, 1 / 5):
        channels = solve(pose(table, limit, risk="reconstruction")).channels
        group, value = likely_worst(table, channels, 20).T
        for risk in (Reconstruction, Link):
            values = risk(table, channels).values.reshape(table.counts.shape)
            assert values[group, value].max() == pytest.approx(values.max(), rel=1e-6)


def test_a_large_domain_is_estimated_and_labelled() -> None:
    found = sf.estimate_risk(
        counted(wide(), asked(roles=LARGE)),
        {"zip": 0.5, "born": "1/2", "sex": 0.9},
        limit=sf.RiskLimit("1/2"),
        cells=5,
        samples=50,
        seed=1,
    )
    assert isinstance(found, sf.SampledRisks)
    assert found.domain_cells > MOST_CELLS
    assert not found.can_be_planned
    assert (found.statement, found.samples, len(found.cells)) == (NO_GUARANTEE, 50, 5)
    assert {cell.limit for cell in found.cells} == {0.5}
    assert found.kept == {"zip": 0.5, "born": 0.5, "sex": pytest.approx(0.9), "disease": 1}
    text = found.explain()
    assert text.startswith("ESTIMATE, NO GUARANTEE")
    assert "Nothing is published under a limit that was only estimated." in text
    assert "a value stays with the probability zip 0.5, born 0.5, sex 0.9; all else is untouched" in text
    assert text.count("record(s))") == 5
    again = json.loads(json.dumps(found.to_dict()))
    assert again["statement"] == NO_GUARANTEE
    assert again["cells"][0]["values"] == list(found.cells[0].values)


def test_draws_are_repeatable() -> None:
    profile = counted(wide(400))
    one, two, other = (
        sf.estimate_risk(profile, {"zip": 0.5, "born": 0.5}, cells=3, samples=20, seed=s) for s in (1, 1, 2)
    )
    assert one == two != other


def test_a_small_domain_is_better_planned() -> None:
    profile = counted(small(1))
    found = sf.estimate_risk(profile, {"zip": 0.6}, cells=2, samples=20)
    assert (found.can_be_planned, found.to_fix) == (True, ())
    assert "It is small enough for every cell to be evaluated: `sfumato plan` does so, exactly." in found.explain()


def test_it_is_told_what_the_number_of_cells_leaves_out() -> None:
    profile = counted(small(1))
    first, *others = profile.quasi_identifiers
    some = sf.estimate_risk(profile, {first: 0.6}, cells=1, samples=2)
    every = sf.estimate_risk(profile, dict.fromkeys(profile.quasi_identifiers, 0.6), cells=1, samples=2)
    assert f" cells: of what is untouched, {', '.join(others)}, it counts what occurs. " in some.explain()
    assert "occurs" not in every.explain()
    assert every.domain_cells == profile.domain.size


@pytest.mark.parametrize(
    ("kept", "method"),
    [
        ({"sex": 0.9}, 'fixed = ["zip", "born"]'),
        ({"disease": 0.6}, 'scope = "sensitive" and assurance = "as-published"'),
    ],
)
def test_a_plan_is_named_only_with_what_it_must_fix(kept: dict[str, float], method: str) -> None:
    """What is untouched in the estimate counts with what occurs; a plan counts it so if told, and refuses if not."""
    policy = asked("l = 2", roles=LARGE)
    profile = counted(wide(), policy)
    found = sf.estimate_risk(profile, kept, cells=1, samples=2)
    assert found.domain_cells <= MOST_CELLS < profile.domain.size
    assert found.can_be_planned
    assert found.to_fix == tuple(name for name in profile.quasi_identifiers if name not in kept)
    assert f"`sfumato plan` does so, exactly, if the policy's method has {method}." in found.explain()
    assert found.to_dict()["to_fix"] == list(found.to_fix)
    with pytest.raises(Infeasible, match="a search for parameters would take"):
        planned(wide(), policy)
    stated = asked("l = 2", method.replace(" and ", "\n"), roles=LARGE)
    with pytest.raises(Infeasible, match="at the least, above its limit"):  # evaluated, on every cell
        planned(wide(), stated)


def test_nothing_stated_is_the_table_as_it_is() -> None:
    found = sf.estimate_risk(counted(small(1)), {"zip": 1}, cells=2, samples=20)
    assert "Stated: every value stays. These are the risks of the table as it is." in found.explain()
    large = sf.estimate_risk(counted(wide(), asked(roles=LARGE)), {"sex": 1}, cells=1, samples=2)
    assert (large.can_be_planned, large.to_fix) == (False, ())


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({}, "State with which probability values stay of some of 'zip', 'born', 'sex', 'disease'"),
        ({"town": 0.5}, "State with which probability"),
        ({"sex": 0.1}, r"Values of 'sex' stay with a probability between 1/\d \(all noise\) and 1, not 0.1"),
        ({"sex": 1.5}, "not 1.5"),
    ],
)
def test_what_is_stated_must_make_sense(kept: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sf.estimate_risk(counted(small(1)), kept)


def test_an_estimate_needs_something_to_look_at() -> None:
    with pytest.raises(UsageError, match="one cell and two samples"):
        sf.estimate_risk(counted(small(1)), {"zip": 0.6}, samples=1)
    alone = counted(small(1).select(["disease"]), make_policy({"disease": "sensitive"}))
    with pytest.raises(PolicyError, match="has no quasi-identifiers"):
        sf.estimate_risk(alone, {"disease": 0.6})


def test_a_joint_table_has_a_largest_size() -> None:
    cells = np.column_stack([np.arange(100), np.zeros(100, dtype=np.int64)])
    with pytest.raises(Infeasible, match="100 groups times 1,000,000 sensitive values are more than"):
        JointTable.from_cells((100, 1_000_000), cells, np.ones(100))


def test_a_plan_says_which_risks_it_could_not_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 3 sensitive values `reconstruction` needs a third of the cells of the others."""
    policy = asked("risk_limit = 0.35", AS_PUBLISHED)
    rows = small(3)
    table = Axes.of(counted(rows, policy)).table
    set_constants(monkeypatch, "sfumato.methods", MOST_CELLS=table.group_cells + len(table.groups))
    monkeypatch.setattr(JointTable, "from_cells", classmethod(lambda cls, *arguments: table))
    set_constants(monkeypatch, "sfumato.methods", MOST_SECONDS_OF_POINT=0.0)
    made = planned(rows, policy)
    assert isinstance(made.figures, ResponseFigures)
    assert set(made.figures.risks) == {"reconstruction"}
    text = made.explain()
    assert "posterior       not evaluated: the domain is too large" in text
    assert f"No trade-off curve: the domain has {table.group_cells:,} cells" in text
