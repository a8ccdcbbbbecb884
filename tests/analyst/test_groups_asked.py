"""Questions to releases by groups: mixed groups, what is not told, the classical estimate, refusals, tampered files."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import Release
from sfumato.errors import ReleaseError, UsageError
from tests.analyst.test_sql_groups import JOBS, ROWS, Dense, people, released
from tests.cli.test_commands import as_json, run
from tests.constants import set_constants
from tests.engines.grouped import codes_of, dealt_groups, grouped_release
from tests.engines.tools import patients
from tests.engines.tools import released as published

# --- groups about which chance says nothing ---------------------------------------------------------------------------


def loose_truth(table: pa.Table, group: npt.NDArray[np.int64], loose: npt.NDArray[np.bool_]) -> Any:
    """Return, for women and each job, the classical count of loose groups, and the farthest that it can be off."""
    woman, job = np.array(table["sex"].to_pylist()) == "F", table["job"].to_pylist()
    found = {}
    for name in JOBS:
        has, estimate, off = np.array([j == name for j in job]), 0.0, 0.0
        for number in np.unique(group[loose]):
            own = group == number
            size, c, a = int(own.sum()), int((own & has).sum()), int((own & woman).sum())
            sums = [sum(chosen) for chosen in combinations([1] * a + [0] * (size - a), c)]  # every way to have them
            estimate += a * c / size
            off += max(max(sums) - a * c / size, a * c / size - min(sums))
        found[name] = estimate, off
    return found


def test_groups_that_mix_cells(tmp_path: Path) -> None:
    """The classical estimate of these groups, and the largest error that it can have, found by trying all ways."""
    table, rng = people(), np.random.default_rng(5)
    cell = codes_of(table, ["region"])[1]
    group = dealt_groups(codes_of(table, ["job"])[1], cell, 2, rng, 12)
    mixed = group % 20 == 7
    number = np.unique(group[~mixed], return_inverse=True)[1].astype(np.int64)
    strict = grouped_release(tmp_path / "strict", table.filter(~mixed), ["job"], number, within=["region"])
    group[~mixed], group[mixed] = number, number.max() + 1 + np.arange(mixed.sum()) % 2
    assert all(np.unique(cell[group == number]).size > 1 for number in np.unique(group[mixed]))
    release = grouped_release(tmp_path / "mixed", table, ["job"], group, within=["region"], withheld=3)
    query = "SELECT job, COUNT(*) FROM release WHERE sex = 'F' GROUP BY job"
    expected, answer, alone = loose_truth(table, group, mixed), release.sql(query), strict.sql(query)
    apart = {
        job: (value, error)
        for (job,), value, error in zip(alone.groups, alone.value, alone.standard_error, strict=True)
    }
    for (job,), value, error in zip(answer.groups, answer.value, answer.standard_error, strict=True):
        assert value == pytest.approx(apart[job][0] + expected[job][0])
        assert error == pytest.approx(apart[job][1] + expected[job][1])
    assert any(f"{mixed.sum()} records are in groups that mix cells of region" in note for note in answer.notes)
    assert any("3 were withheld" in note for note in answer.notes)
    everyone = release.sql("SELECT region, COUNT(*) FROM release WHERE job IS NULL OR job IS NOT NULL GROUP BY region")
    assert everyone.value == pytest.approx(np.bincount(cell))
    assert everyone.standard_error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    "figure", ["SUM(income)", "AVG(hours)", "COUNT(*) / SUM(COUNT(*)) OVER ()", "SUM(income) / SUM(hours)"]
)
def test_whatever_mixed_groups_hide_is_within_the_error(tmp_path: Path, figure: str) -> None:
    """All groups mix cells, so no error is a matter of chance: no assignment of values leaves estimate +- error."""
    rng = np.random.default_rng(17)
    for k in range(3):
        table = people(20 + k).slice(0, 40)
        group = rng.permutation(np.arange(40) // 4)
        release = grouped_release(tmp_path / f"r{k}", table, ["job"], group, within=["income", "age"])
        answer = release.sql(f"SELECT sex, job, {figure} AS x FROM release GROUP BY sex, job")
        ends = dict(zip(answer.groups, zip(*answer.interval(0.6827), strict=True), strict=True))
        for _ in range(10):  # other worlds with the same two tables
            job = np.array(table["job"].to_pylist(), dtype=object)
            for number in range(10):
                job[group == number] = rng.permutation(job[group == number])
            with duckdb.connect() as connection:
                connection.register("release", table.set_column(6, "job", pa.array(job.tolist())))
                rows = connection.sql(f"SELECT sex, job, {figure} FROM release GROUP BY sex, job").fetchall()
            for sex, name, value in rows:
                low, high = ends[sex, name]
                assert value is None or low - 1e-3 * abs(low) <= value <= high + 1e-3 * abs(high), (sex, name, figure)


def test_cells_that_tell_nothing_are_loose(tmp_path: Path) -> None:
    """The last region's groups are all alike: its values are not told apart, and the others' are."""
    table, rng = people(), np.random.default_rng(5)
    cell = codes_of(table, ["region"])[1]
    group = dealt_groups(codes_of(table, ["job"])[1], cell, 2, rng, 12)
    own = cell == 2
    group[own] = group[own].min()
    group = np.unique(group, return_inverse=True)[1].astype(np.int64)
    release = grouped_release(tmp_path / "r", table, ["job"], group, within=["region"])
    answer = release.sql("SELECT job, COUNT(*) FROM release WHERE sex = 'F' GROUP BY job")
    assert not np.isnan(answer.value).any()
    assert any(f"{own.sum()} records are in cells of region with too few different groups" in n for n in answer.notes)
    inside = release.sql("SELECT region, COUNT(*) FROM release WHERE job = 'cook' GROUP BY region")
    assert inside.value[2] == pytest.approx(sum(np.array(table["job"].to_pylist())[own] == "cook"))
    assert inside.standard_error == pytest.approx(0, abs=1e-9)  # every region's own count is told by its groups


# --- what is not told, other methods, refusals ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(tmp_path_factory.mktemp("plain") / "r", "plain")


def test_figures_that_are_not_told(tmp_path: Path) -> None:
    """Two groups cannot tell five values apart; but all values together are told, and values of all records."""
    table = people()
    release = grouped_release(tmp_path / "r", table, ["job"], np.arange(ROWS) % 2)
    answer = release.sql("SELECT job, COUNT(*) AS n, AVG(age) FROM release WHERE sex = 'F' GROUP BY job")
    assert np.isnan(answer.value).all()
    assert any("do not tell 5 of 5 figures" in note and "classical" in note for note in answer.notes)
    whole = release.sql(
        "SELECT COUNT(*) FROM release WHERE sex = 'F' AND (job = 'cook' OR job <> 'cook' OR job IS NULL)"
    )
    assert whole.value == pytest.approx(table["sex"].to_pylist().count("F"))
    assert whole.standard_error == 0
    every = release.count("job")
    assert every.value == pytest.approx([table["job"].to_pylist().count(job) for (job,) in every.groups])
    assert every.standard_error == pytest.approx(0, abs=1e-9)
    assert not np.isnan(release.count(["sex", "job"], method="classical").value).any()


def test_the_classical_estimate(plain: Release) -> None:
    query = "SELECT sex, job, COUNT(*) AS n, AVG(age) AS age FROM release GROUP BY sex, job"
    answer, dense = plain.sql(query, method="classical"), Dense(plain)
    (stratum,) = dense.strata
    for (sex, job, figure), value in zip(answer.groups, answer.value, strict=True):
        z = np.array([float(row["sex"] == sex) for row in dense.rows])
        f = stratum.c[:, dense.values.index((job,))]
        counts, ages = (
            float((stratum.members @ (z * np.array(column)) * stratum.w) @ f)
            for column in (
                [float(row["age"] is not None) for row in dense.rows],
                [row["age"] or 0 for row in dense.rows],
            )
        )
        expected = ages / counts if figure == "age" else float((stratum.members @ z * stratum.w) @ f)
        assert value == pytest.approx(expected)
    assert answer.method == "classical"
    assert np.isnan(answer.standard_error).all()
    assert np.isnan(answer.interval()).all()
    assert any("independent" in note and "biased" in note for note in answer.notes)
    count = plain.count(["sex", "job"], method="classical")
    assert count.value == pytest.approx(answer.value[::2])
    assert plain.table(["sex", "job"]).published.ravel() == pytest.approx(count.value)


def test_untouched_columns_alone_are_counted(plain: Release) -> None:
    rows = plain.to_arrow().to_pylist()
    answer = plain.sql("SELECT sex, COUNT(*) FROM release WHERE age > 40 GROUP BY sex")
    true = [sum(row["sex"] == sex and (row["age"] or 0) > 40 for row in rows) for (sex,) in answer.groups]
    assert answer.value.tolist() == true
    assert not answer.standard_error.any()
    assert "No sensitive column is asked: the rows are counted as they are." in answer.notes
    assert plain.sql("SELECT COUNT(*) FROM release WHERE age > 40", target="population").standard_error > 0
    assert plain.count("group").value.sum() == ROWS


@pytest.mark.parametrize("sets", ["CUBE (sex, job)", "GROUPING SETS ((sex, job), (sex), (job), ())"])
def test_a_cube_with_a_hidden_column_has_the_sums_of_its_sets(plain: Release, sets: str) -> None:
    """Those without the hidden column are counted, and each is what it is if it is asked for alone."""
    answer = plain.sql(f"SELECT sex, job, COUNT(*) FROM release GROUP BY {sets}")
    found = {
        group: (value, error)
        for group, value, error in zip(answer.groups, answer.value, answer.standard_error, strict=True)
    }
    assert found["(all)", "(all)"] == (ROWS, 0)
    by_sex, by_job = (plain.sql(f"SELECT {name}, COUNT(*) FROM release GROUP BY {name}") for name in ("sex", "job"))
    for (sex,), value in zip(by_sex.groups, by_sex.value, strict=True):
        assert found[sex, "(all)"] == (value, 0)
    for (job,), value in zip(by_job.groups, by_job.value, strict=True):
        assert found["(all)", job][0] == pytest.approx(value)


def test_counts_may_have_conditions_on_hidden_columns(plain: Release) -> None:
    counted = plain.count("sex", "job = 'cook' OR age > 60")
    asked = plain.sql("SELECT sex, COUNT(*) FROM release WHERE job = 'cook' OR age > 60 GROUP BY sex")
    assert counted.value == pytest.approx(asked.value)
    assert counted.standard_error == pytest.approx(asked.standard_error)


def test_no_negative_counts(plain: Release) -> None:
    projected = plain.count(["sex", "job"], method="projected")
    assert (projected.value >= 0).all()
    assert projected.value.sum() == pytest.approx(ROWS)


def test_csv(plain: Release, tmp_path: Path) -> None:
    text = released(tmp_path / "r", "csv")
    query = "SELECT sex, job, COUNT(*) AS n, AVG(income) FROM release WHERE age > 30 GROUP BY sex, job"
    assert text.sql(query).value == pytest.approx(plain.sql(query).value, nan_ok=True)
    assert text.sql(query).standard_error == pytest.approx(plain.sql(query).standard_error, nan_ok=True)


def test_nobody_is_asked(plain: Release) -> None:
    answer = plain.sql("SELECT job, COUNT(*) FROM release WHERE age > 200 GROUP BY job")
    assert answer.value.tolist() == [0] * len(answer.value)
    nobody = plain.sql("SELECT COUNT(*) FROM release WHERE job = 'pope' AND sex = 'F'")
    assert nobody.value.tolist() == [0]
    assert any("No value of 'job' satisfies" in note for note in nobody.notes)


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda r: r.sql('SELECT "group", job, COUNT(*) FROM release GROUP BY "group", job'), "numbers the groups"),
        (lambda r: r.sql("SELECT COUNT(*) FROM release WHERE job = 'cook' AND \"group\" < 5"), "numbers the groups"),
        (lambda r: r.sql('SELECT job, AVG("group") FROM release GROUP BY job'), "numbers the groups"),
        (lambda r: r.risks('"group" < 5', "job = 'cook'"), "numbers the groups"),
        (lambda r: r.sql("SELECT SUM(job) FROM release"), "only in the table of groups"),
        (lambda r: r.sql("SELECT COUNT(job) FROM release"), "only in the table of groups"),
        (lambda r: r.sql("SELECT COUNT(*) FROM release WHERE job = sex"), "with another one"),
        (lambda r: r.sql("SELECT COUNT(*) FROM release", method="em"), "by `inverse` or `classical`"),
        (lambda r: r.count("job", method="em"), "dealt together"),
        (lambda r: r.count("sex", "job = 'cook'", method="projected"), "whose size is known"),
        (lambda r: r.count("jobb"), "Did you mean 'job'"),
        (lambda r: r.power("job"), "has none"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_reason(
    plain: Release, ask: Callable[[Release], Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        ask(plain)


def test_the_classical_estimate_is_for_groups(tmp_path: Path) -> None:
    randomized = published(patients(), folder=tmp_path / "r")
    for ask in (
        lambda: randomized.count("disease", method="classical"),
        lambda: randomized.table("disease", method="classical"),
        lambda: randomized.sql("SELECT COUNT(*) FROM release", method="classical"),
    ):
        with pytest.raises(UsageError, match="releases by groups"):
            ask()


def test_tables_that_do_not_fit_together(tmp_path: Path) -> None:
    release = released(tmp_path / "r", "plain")
    data = pq.read_table(release.data)
    pq.write_table(data.slice(1), release.data)
    with pytest.raises(ReleaseError, match="other groups in its data"):
        release.count("job")
    pq.write_table(data, release.data)
    assert release.count("job").value.sum() == pytest.approx(ROWS)
    (release.folder / "groups.parquet").unlink()
    with pytest.raises(ReleaseError, match=r"lost its data file 'groups\.parquet'"):
        release.count("job")


def test_compositions_are_read_in_parts(plain: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few lines cut groups in two; lines of a group may stand in any order."""
    set_constants(monkeypatch, "sfumato.analyst", LINES_AT_ONCE=7)
    copy = released(tmp_path / "r", "plain")
    assert copy.groups is not None
    lines = pq.read_table(copy.groups)
    order = np.lexsort((np.random.default_rng(1).random(lines.num_rows), lines["group"].to_numpy()))
    pq.write_table(lines.take(order), copy.groups)
    query = "SELECT sex, job, COUNT(*) FROM release GROUP BY sex, job"
    assert copy.sql(query).value == pytest.approx(plain.sql(query).value)
    assert copy.sql(query).standard_error == pytest.approx(plain.sql(query).standard_error)
    pq.write_table(lines.take(order[::-1]), copy.groups)
    with pytest.raises(ReleaseError, match="not numbered from 1 in their order"):
        copy.sql(query)


def test_cells_of_columns_that_are_not_published(tmp_path: Path) -> None:
    """Nobody knows which groups mix cells then, so all of them might."""
    table, rng = people(), np.random.default_rng(5)
    group = dealt_groups(codes_of(table, ["job"])[1], np.zeros(ROWS, dtype=np.int64), 2, rng, 12)
    release = grouped_release(tmp_path / "r", table, ["job"], group, within=["town"])
    answer = release.sql("SELECT job, COUNT(*) FROM release WHERE sex = 'F' GROUP BY job")
    assert answer.value == pytest.approx(release.count("job", "sex = 'F'", method="classical").value)
    assert any(f"{ROWS} records are in groups that mix cells of town" in note for note in answer.notes)


def test_the_command_line(plain: Release) -> None:
    folder = str(plain.folder)
    query = "SELECT sex, job, COUNT(*) FROM release GROUP BY sex, job"
    found = as_json("estimate", folder, query, "--method", "classical")
    assert found["method"] == "classical"
    assert found["rows"] == as_json("estimate", folder, "--by", "sex,job", "--method", "classical")["rows"]
    assert all(row["standard_error"] is None for row in found["rows"])
    code, out, err = run("associate", folder, "--between", "sex,job")
    assert (code, "The classical estimate: " in out) == (0, True), err
    code, out, err = run("estimate", folder, "--by", "sex", "--where", "job = 'cook'")
    assert (code, "Unbiased over the random deal" in out) == (0, True), err
    code, out, err = run("estimate", folder, "--by", "job", "--method", "em")
    assert (code, "dealt together" in err) == (2, True)
