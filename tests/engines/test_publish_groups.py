"""Releases by groups, from table to files: exact, whole, without residues, and as the policy asks."""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.deal import buckets as grouping
from sfumato.engines.embedded import shuffle
from sfumato.errors import CannotMeet, PlanMismatch
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.plan import Plan
from sfumato.publisher.publish import rows_read
from sfumato.release.formats import parquet
from sfumato.values import bucket_deal as deals
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import DISEASES, ROLES, listing, patients
from tests.release.test_residues import PLANTED, all_bytes, found_in, planted_table

SETS = 'attribute_sets = [["sex"], ["sex", "ward"]]\n'
METHODS: dict[str, tuple[str, str, str]] = {  # method, requirement, options
    "anatomy": ("anatomy", "l = 2", ""),
    "anatomy as published": ("anatomy", "l = 2", 'assurance = "as-published"'),
    "rotation": ("suppression", "l = 3", ""),
    "spread": ("suppression", "l = 3", 'variant = "spread"'),
    "safe-d": ("suppression", "l = 3", 'variant = "safe-d"'),
    "rotation, always": ("suppression", "l = 2", "always = true"),
    "spread, always": ("suppression", "l = 2", 'variant = "spread"\nalways = true'),
    "safe-d, always": ("suppression", "l = 2", 'variant = "safe-d"\nalways = true'),
    "r-suppression": ("suppression", "l = 3", 'assurance = "as-published"'),
    "robust": ("robust-anatomy", "r = 2", SETS),
    "robust, table": ("robust-anatomy", "r = 2", f'{SETS}prior = "table"'),
    "robust as published": ("robust-anatomy", "r = 2", f'{SETS}prior = "table"\nassurance = "as-published"'),
}
WARD_ROLES = {**ROLES, "ward": "quasi_identifier"}


def wards(rows: int = 300) -> pa.Table:
    """Return patients of three wards; in the first more than half have one disease, so that some are left over."""
    table = patients(rows)
    asthma = [disease == "asthma" for disease in table["disease"].to_pylist()]
    return table.append_column("ward", pa.array([f"ward {0 if asthma[k] and k % 2 else k % 3}" for k in range(rows)]))


def policy_of(kind: str, roles: dict[str, str] = WARD_ROLES, extra: str = "") -> sf.Policy:
    method, requirement, options = METHODS[kind]
    return make_policy(roles, requirement, method, extra, options)


def planned(table: Any, policy: sf.Policy, seed: int = 1) -> tuple[sf.Table, Plan]:
    opened = sf.scan(table, policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement, key=SecretKey.from_seed(seed))
    assert isinstance(plan.figures, BucketFigures)
    return opened, plan


def released(table: Any, policy: sf.Policy, folder: Path, format: Any = None, seed: int = 1) -> sf.Release:
    opened, plan = planned(table, policy, seed)
    return sf.publish(opened, plan, folder, key=SecretKey.from_seed(seed), format=format)


def failed(release: sf.Release) -> list[str]:
    """Return the checks that fail, but for that of the seed."""
    return [c.name for c in release.verify().checks if c.status == "fails" and c.name != "secret key"]


def check_exact(release: sf.Release, table: pa.Table, key: str = "age", hidden: tuple[str, ...] = ("disease",)) -> None:
    """The published rows are rows of the table, each once; every group has the values that its rows have in it."""
    true = {str(row[key]): row for row in table.to_pylist()}
    assert len(true) == table.num_rows
    rows, lines = release.to_arrow().to_pylist(), release.groups_to_arrow().to_pylist()
    keys = [str(row[key]) for row in rows]
    assert len(set(keys)) == len(rows)
    expected: Counter[Any] = Counter()
    for row in rows:
        source = true[str(row[key])]
        assert all(str(row[name]) == str(source[name]) for name in row if name != "group")
        expected[row["group"], *(source[name] for name in hidden)] += 1
    found = {(line["group"], *(line[name] for name in hidden)): line["count"] for line in lines}
    assert found == expected
    assert len(found) == len(lines) == release.manifest.groups.lines  # type: ignore[union-attr]
    assert release.manifest.groups.withheld == table.num_rows - len(rows)  # type: ignore[union-attr]
    assert [row["group"] for row in rows] == sorted(row["group"] for row in rows)
    assert {row["group"] for row in rows} == set(range(1, release.manifest.groups.number + 1))  # type: ignore[union-attr]


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", METHODS)
def test_what_is_published_is_exact_and_verifies(
    kind: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=70)
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=90)
    path = tmp_path / f"t.{format}"
    (pq.write_table if format == "parquet" else pacsv.write_csv)(wards(), path)
    release = check_published(path, kind, format, tmp_path / "r")
    assert listing(release.folder) == ["README.md", f"data.{format}", f"groups.{format}", "manifest.json"]


def check_published(table: Any, kind: str, format: Any, folder: Path) -> sf.Release:
    """Publish the wards, and look at everything."""
    opened, plan = planned(table, policy_of(kind))
    release = sf.publish(opened, plan, folder, key=SecretKey.from_seed(1), format=format)
    assert failed(release) == []
    check_exact(release, wards())
    assert release.column_names == ("age", "sex", "ward", "group")
    assert release.manifest.columns[-1].treatment == "group"
    values = Counter(line["disease"] for line in release.groups_to_arrow().to_pylist() for _ in range(line["count"]))
    if plan.method != "robust-anatomy":
        assert [values[disease] for disease in DISEASES] == plan.figures.published.tolist()
        assert release.manifest.groups.number == plan.figures.groups  # type: ignore[union-attr]
    assert (release.manifest.data.rows < 300) == ("anatomy" not in kind)
    return release


@pytest.mark.parametrize("source", ["parquet", "csv"])
def test_missing_values_and_bins(source: str, tmp_path: Path) -> None:
    """Sensitive: text with a missing value as its own, or a binned number; rows without a sex are left out."""
    rng = np.random.default_rng(3)
    table = patients(400)
    for name, every in (("sex", 11), ("disease", 9)):
        column = [None if k % every == 0 else v for k, v in enumerate(table[name].to_pylist())]
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    table = table.append_column("cost", pa.array(rng.integers(0, 40, 400)))
    path = tmp_path / f"t.{source}"
    (pq.write_table if source == "parquet" else pacsv.write_csv)(table, path)
    roles = {**ROLES, "sex": "quasi_identifier; missing = 'drop'", "disease": "sensitive; missing = 'category'"}
    asked = make_policy({**roles, "cost": "other"}, "l = 2", "anatomy")
    release = released(path, asked, tmp_path / "disease")
    assert failed(release) == []
    kept = table.filter(pa.compute.is_valid(table["sex"]))
    check_exact(release, kept)
    assert None in release.manifest.domain.parts[0].values
    roles |= {"disease": "other; missing = 'category'", "cost": "sensitive; bins = { width = 10 }"}
    release = released(path, make_policy(roles, "l = 3", "anatomy"), tmp_path / "cost")
    assert failed(release) == []
    labels = pa.array([f"[{10 * (c // 10)}, {10 * (c // 10) + 10})" for c in kept["cost"].to_pylist()])
    check_exact(release, kept.set_column(kept.column_names.index("cost"), "cost", labels), hidden=("cost",))
    assert release.groups_to_arrow().column_names == ["group", "cost", "count"]


def test_whole_numbers_keep_their_type_and_truth_values_stay(tmp_path: Path) -> None:
    numbers, stages = pa.array(range(60), pa.int32()), pa.array([k % 3 for k in range(60)], pa.int8())
    for column in (stages, pa.array([k % 2 == 0 for k in range(60)])):
        table = pa.table({"n": numbers, "hidden": column})
        policy = make_policy({"n": "other", "hidden": "sensitive"}, "l = 2", "anatomy")
        release = released(table, policy, tmp_path / str(column.type))
        assert failed(release) == []
        assert pq.read_schema(release.groups).types == [pa.int32(), column.type, pa.int64()]
        check_exact(release, table, "n", ("hidden",))


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_numbers_of_64_bits(format: str, tmp_path: Path) -> None:
    table = pa.table({"n": list(range(20)), "code": pa.array([2**63 + k % 4 for k in range(20)], pa.uint64())})
    release = released(
        table, make_policy({"n": "other", "code": "sensitive"}, "l = 2", "anatomy"), tmp_path / "r", format
    )
    assert failed(release) == []
    check_exact(release, table, "n", ("code",))


# --- what is asked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planned_for", "asked"),
    [
        ("anatomy", ("anatomy", "l = 3", "")),
        ("anatomy", METHODS["anatomy as published"]),
        ("anatomy", ("suppression", "l = 2", "")),
        ("rotation", METHODS["spread"]),
        ("rotation", ("suppression", "l = 3", "always = true")),
        ("rotation", METHODS["r-suppression"]),
        ("robust", ("robust-anatomy", "r = 3", SETS)),
        ("robust", ("robust-anatomy", "r = 2", 'attribute_sets = [["sex", "ward"]]')),
        ("robust", METHODS["robust, table"]),
        ("robust, table", METHODS["robust as published"]),
        ("anatomy", ("uniform", "rho1 = 0.2\nrho2 = 0.5", "")),
    ],
)
def test_a_plan_for_something_else_is_refused(planned_for: str, asked: tuple[str, str, str], tmp_path: Path) -> None:
    _, plan = planned(wards(), policy_of(planned_for))
    method, requirement, options = asked
    other = sf.scan(wards(), make_policy(WARD_ROLES, requirement, method, options=options))
    with pytest.raises(PlanMismatch, match="not for the method, the assurance and the requirement"):
        sf.publish(other, plan, tmp_path / "r")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("kind", ["anatomy", "rotation", "robust", "robust, table"])
def test_a_table_that_was_not_planned_is_refused(kind: str, tmp_path: Path) -> None:
    _, plan = planned(wards(), policy_of(kind))
    table = wards()
    diseases = table["disease"].to_pylist()
    diseases[0] = next(d for d in DISEASES if d != diseases[0])
    for other in (table.slice(1), table.set_column(3, "disease", pa.array(diseases))):
        with pytest.raises(PlanMismatch, match="not the one that was planned"):
            sf.publish(sf.scan(other, policy_of(kind)), plan, tmp_path / "r")
    assert listing(tmp_path) == []


@pytest.mark.parametrize(
    "change",
    [
        {"groups": 151},
        {"groups": 0},
        {"withheld": np.array([0, 0, 0, -1])},
        {"withheld": np.array([10**6, 0, 0, 0])},
    ],
)
def test_a_plan_that_breaks_its_own_bound_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    opened, plan = planned(wards(), policy_of("anatomy"))
    with pytest.raises(PlanMismatch, match="its own bound"):
        sf.publish(opened, replace(plan, figures=replace(plan.figures, **change)), tmp_path / "r")


def test_a_signed_plan_is_carried_out(tmp_path: Path) -> None:
    for kind in ("rotation", "robust, table"):
        opened, plan = planned(wards(), policy_of(kind))
        path = tmp_path / f"{kind}.json"
        path.write_text(plan.bound_to(opened.hash(), opened.policy.hash()).to_json())
        release = sf.publish(opened, sf.load_plan(path), tmp_path / kind, key=SecretKey.from_seed(1))
        check_exact(release, wards())
        again = sf.publish(opened, plan, tmp_path / f"{kind} again", key=SecretKey.from_seed(1))
        assert release.to_arrow() == again.to_arrow()


# --- seeds, persons, left-out rows ------------------------------------------------------------------------------------


def test_seeds_are_not_for_release(tmp_path: Path) -> None:
    opened, plan = planned(wards(), policy_of("rotation"))
    assert plan.seeded
    by_plan = sf.publish(opened, plan, tmp_path / "a")
    by_key = sf.publish(opened, replace(plan, seeded=False), tmp_path / "b", key=SecretKey.from_seed(1))
    free = sf.publish(opened, replace(plan, seeded=False), tmp_path / "c")
    assert [r.manifest.status for r in (by_plan, by_key, free)] == ["not for release", "not for release", "release"]
    assert [r.verify().holds for r in (by_plan, by_key, free)] == [False, False, True]
    assert "see who has what" in (by_plan.folder / "README.md").read_text()


def test_two_releases_have_other_groups(tmp_path: Path) -> None:
    opened, plan = planned(wards(), policy_of("anatomy"))
    first, second = (sf.publish(opened, plan, tmp_path / name).to_arrow() for name in "ab")
    assert sorted(first["age"].to_pylist()) == sorted(second["age"].to_pylist())
    assert first["age"].to_pylist() != second["age"].to_pylist()


def test_the_limits_of_persons_and_left_out_rows(tmp_path: Path) -> None:
    roles = {**ROLES, "name": "identifier", "disease": "sensitive; missing = 'drop'"}
    table = patients()
    column = [None if k == 4 else v for k, v in enumerate(table["disease"].to_pylist())]
    table = table.set_column(3, "disease", pa.array(column))
    extra = '[person]\ncolumn = "name"\nrepeated = "per-row"\n'
    release = released(table, make_policy(roles, "l = 2", "anatomy", extra), tmp_path / "a")
    limits = " ".join(release.manifest.guarantee.limits)
    assert "Several rows of one person may be published" in limits
    assert "Rows without a value of disease were left out" in limits
    assert "is not in the release has none." in limits
    assert failed(release) == []
    withheld = released(table, make_policy(roles, "l = 3", "suppression"), tmp_path / "b")
    assert "has none, or is withheld." in " ".join(withheld.manifest.guarantee.limits)
    assert "a record has one of the values that both its groups have" in release.manifest.second_release


def test_progress_counts_every_row_of_every_reading(tmp_path: Path) -> None:
    """10 of 310 rows have no sex: they are read, but not as values."""
    table = wards(310)
    sexes = [None if k < 10 else sex for k, sex in enumerate(table["sex"].to_pylist())]
    table = table.set_column(table.column_names.index("sex"), "sex", pa.array(sexes))
    roles = WARD_ROLES | {"sex": "quasi_identifier; missing = 'drop'"}
    for kind, rows in (("anatomy", 300 + 310), ("robust", 310 + 300 + 310)):
        opened, plan = planned(table, policy_of(kind, roles))
        read: list[int] = []
        sf.publish(opened, plan, tmp_path / kind, progress=read.append)
        assert sum(read) == rows_read(plan) == rows


def test_the_readme_tells_what_the_files_are(tmp_path: Path) -> None:
    release = released(wards(), policy_of("rotation"), tmp_path / "r")
    text = (release.folder / "README.md").read_text()
    withheld = release.manifest.groups.withheld  # type: ignore[union-attr]
    for part in (
        "`data.parquet` has a line for each record: the other columns, and its group (`group`)",
        "`groups.parquet` has the values of each group: `group`, `disease`, and how many records of the group have",
        "**Do not join the files on `group`**",
        'sfumato estimate . --by disease --where "age IS NOT NULL"',
        f"{withheld} records of the table are withheld.",
        release.manifest.guarantee.sentence,
        "| disease | string | by groups: in `groups.parquet` only |",
        "| group | int32 | number of the record's group |",
        "Values of `disease` (4): asthma, flu, gout, mumps.",
    ):
        assert part in text
    assert "matrix" not in text
    assert "randomized" not in text


# --- whole or absent --------------------------------------------------------------------------------------------------

STAGES: dict[str, tuple[Any, str, int]] = {  # whose function fails, after how many calls
    "reading values": (grouping.DealtRows, "_scatter", 0),
    "dealing": (grouping.Groups, "group_of", 0),
    "reading groups back": (grouping.DealtRows, "next", 0),
    "spilling": (shuffle.Spill, "scatter", 0),
    "sorting": (shuffle.Spill, "_part", 0),
    "writing the rows": (parquet.ParquetWriter, "write", 0),
    "writing the groups": (parquet.ParquetWriter, "write", 1),
    "closing the groups": (parquet.ParquetWriter, "close", 1),
    "compositions": (grouping.Groups, "compositions", 0),
}


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), OSError(28, "No space left on device")], ids=["^C", "full"])
@pytest.mark.parametrize("stage", STAGES)
def test_nothing_is_left_of_a_failed_run(
    stage: str, problem: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, plan = planned(wards(), policy_of("anatomy"))
    owner, name, after = STAGES[stage]
    original, calls = getattr(owner, name), iter(range(after))

    def failing(*args: Any) -> Any:
        if next(calls, None) is not None:
            return original(*args)
        raise problem

    monkeypatch.setattr(owner, name, failing)
    threads = threading.active_count()
    with pytest.raises((KeyboardInterrupt, CannotMeet)):
        sf.publish(opened, plan, tmp_path / "r")
    monkeypatch.undo()
    assert listing(tmp_path) == []
    assert threading.active_count() == threads


# --- residues ---------------------------------------------------------------------------------------------------------

PLANTED_ROLES = {
    "identity_planted": "identifier",
    "town": "other; missing = 'category'",
    "region": "quasi_identifier; missing = 'category'",
    "number": "other; missing = 'drop'",
    "note": "other",
    "income": "quasi_identifier; bins = { breaks = [100_000, 300_000] }",
    "disease": "sensitive; missing = 'drop'",
}


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("method", ["anatomy", "robust-anatomy"])
def test_no_planted_token_is_in_a_release(method: str, format: str, tmp_path: Path) -> None:
    requirement, options = ("l = 2", "") if method == "anatomy" else ("r = 2", 'attribute_sets = [["region"]]')
    policy = make_policy(PLANTED_ROLES, requirement, method, options=options)
    release = released(planted_table(), policy, tmp_path / "r", format)
    content = all_bytes(release.folder)
    assert found_in(content) == set()
    assert PLANTED
    assert all(token in content for token in (b"north", b"Ulm", b"note 399", b"asthma", b">= 300000"))


def test_the_key_and_the_counts_of_withheld_values_are_not_told(tmp_path: Path) -> None:
    release = released(wards(), policy_of("rotation"), tmp_path / "r")
    _, plan = planned(wards(), policy_of("rotation"))
    text = (release.folder / "manifest.json").read_text() + (release.folder / "README.md").read_text()
    told = set(map(int, re.findall(r"\b\d+\b", re.sub("[0-9a-f]{12,}", "", text))))
    assert not told & set(plan.figures.counts.tolist())


# --- chance ----------------------------------------------------------------------------------------------------------


def test_places_in_a_group_tell_nothing_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sorted table of three values, 24 groups in three batches, 60 keys: the place in the group tells no value.

    24 * 60 groups have each value once; Pearson's statistic has 4 degrees of freedom and exceeds 33 by chance with
    probability 1e-6.
    """
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=20)
    table = pa.table({"n": list(range(72)), "disease": sorted(DISEASES[:3] * 24)})
    policy = make_policy({"n": "other", "disease": "sensitive"}, "l = 3", "anatomy")
    opened, plan = planned(table, policy)
    assert deals.Runs.of_table(plan.figures.published, plan.figures.groups).batches.tolist() == [3]
    found = np.zeros((3, 3))
    for seed in range(60):
        rows = sf.publish(opened, plan, tmp_path / str(seed), key=SecretKey.from_seed(seed)).to_arrow()
        values = np.array(rows["n"].to_pylist()).reshape(24, 3) // 24
        for place in range(3):
            found[place] += np.bincount(values[:, place], minlength=3)
    statistic = float(((found - 480) ** 2 / 480).sum() * 2 / 3)
    assert statistic < 33
