"""Joint tables, associations, risks and nearness, asked of whole releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.analyst.answer import Target
from sfumato.analyst.release import Release
from sfumato.auditor.utility.distances import nearness
from sfumato.cli.main import app
from sfumato.errors import UsageError
from tests.analyst.test_sql import ROWS, people, policy
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import released


@pytest.fixture(scope="module", params=["uniform", "fine-grain"])  # sub-tables: test_sql_oracle
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(people(ROWS), policy(request.param), folder=tmp_path_factory.mktemp(request.param) / "r")


def quiet(table: pa.Table, sensitive: str, folder: Path) -> Release:
    """Return a release with almost no noise."""
    roles = {name: "sensitive" if name == sensitive else "other" for name in table.column_names}
    return released(table, make_policy(roles, "epsilon = 40"), folder=folder)


# --- joint tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["inverse", "projected", "em"])
def test_a_table_holds_the_counts(release: Release, method: str) -> None:
    """In any order of the columns; combinations that no row has are 0."""
    found = release.table(["job", "sex", "age"], method=method)  # type: ignore[arg-type]
    count = release.count(["job", "sex", "age"], method=method)  # type: ignore[arg-type]
    place = {axis.name: {value: k for k, value in enumerate(axis.values)} for axis in found.axes}
    cells = [tuple(place[axis.name][v] for axis, v in zip(found.axes, group, strict=True)) for group in count.groups]
    lower, upper = found.interval()
    ends = count.interval()
    for k, cell in enumerate(cells):
        assert found.value[cell] == pytest.approx(count.value[k])
        assert found.standard_error[cell] == pytest.approx(count.standard_error[k])
        assert (lower[cell], upper[cell]) == pytest.approx((ends[0][k], ends[1][k]))
    other = np.ones(found.value.shape, dtype=bool)
    other[tuple(np.array(cells).T)] = False
    assert other.any()
    assert not found.value[other].any()
    assert found.published.sum() == ROWS
    assert found.to_arrow().num_rows == found.value.size


@pytest.mark.parametrize("target", ["table", "population"])
def test_covariances_give_the_error_of_any_sum(
    release: Release, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of two jobs of the women and men together, asked as one condition, is that of the four cells."""
    set_constants(monkeypatch, "sfumato.analyst", FEW=0)
    found = release.table(["sex", "job"], target=target)
    covariance = found.covariance()
    assert covariance == pytest.approx(covariance.T)
    assert np.sqrt(covariance.diagonal()) == pytest.approx(found.standard_error.ravel())
    sexes, jobs = (axis.values for axis in found.axes)
    chosen = np.array([[sex in ("F", "M") and job in ("cook", "baker") for job in jobs] for sex in sexes])
    query = "SELECT COUNT(*) FROM release WHERE sex IN ('F', 'M') AND job IN ('cook', 'baker')"
    together = release.sql(query, target=target)
    assert found.value[chosen].sum() == pytest.approx(float(together.value[0]))
    due = float(together.standard_error[0])
    assert np.sqrt(chosen.ravel() @ covariance @ chosen.ravel()) == pytest.approx(due)


def test_a_table_of_untouched_columns_is_exact(release: Release) -> None:
    found = release.table(["sex", "age"])
    assert (found.value == found.published).all()
    assert not found.standard_error.any()


def test_tables_that_are_too_large_are_refused(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="at least one column"):
        release.table([])
    with pytest.raises(UsageError, match="no column 'jobs'"):
        release.table(["jobs"])
    set_constants(monkeypatch, "sfumato.analyst", MOST_COVARIANCES=5)
    with pytest.raises(UsageError, match="5 cells are possible"):
        release.table("job").covariance()
    cells = len(people(ROWS)["age"].unique()) * len(people(ROWS)["income"].unique())
    set_constants(monkeypatch, "sfumato.analyst", MOST_CELLS=cells - 1)  # enough for the combinations that occur
    with pytest.raises(UsageError, match=f"The table has {cells:,} cells; {cells - 1:,} are possible"):
        release.table(["age", "income"])
    set_constants(monkeypatch, "sfumato.analyst", MOST_CELLS=5)
    with pytest.raises(UsageError, match="The answer needs 6 numbers in memory; 5 are possible"):
        release.table("job")


# --- associations and risks -------------------------------------------------------------------------------------------


def test_without_noise_associations_are_those_of_the_table(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """AD Table 5, Original: sex and occupation 4.40e-2; risks by hand."""
    table = pq.read_table(real_data("adult_complete_45222.parquet"), columns=["sex", "occupation", "split"])
    table = table.filter(pa.compute.equal(table["split"], "train")).drop(["split"])
    release = quiet(table, "occupation", tmp_path / "r")
    found = release.association("sex", "occupation")
    assert round(100 * found.measures[0].estimate, 2) == 4.40
    assert found.measures[0].bias == pytest.approx(0, abs=1e-6)
    rows = table.to_pylist()
    exposed = [r for r in rows if r["sex"] == "Female"]
    others = [r for r in rows if r["sex"] != "Female"]
    risk = [sum(r["occupation"] == "Sales" for r in part) / len(part) for part in (exposed, others)]
    difference, ratio, odds, *_ = release.risks("sex = 'Female'", "occupation = 'Sales'").measures
    assert difference.estimate == pytest.approx(risk[0] - risk[1], abs=1e-9)
    assert ratio.estimate == pytest.approx(risk[0] / risk[1])
    assert odds.estimate == pytest.approx(risk[0] / (1 - risk[0]) * (1 - risk[1]) / risk[1])


def test_risks_are_those_of_the_counts(release: Release) -> None:
    """Four counts by SQL; a missing sex or job is in none of them."""
    counts = [
        float(release.sql(f"SELECT COUNT(*) FROM release WHERE {a}job = 'cook' AND {b}sex = 'F'").value[0])
        for a, b in (("", ""), ("NOT ", ""), ("", "NOT "), ("NOT ", "NOT "))
    ]
    (_, ratio, odds, *_) = release.risks("sex = 'F'", "job = 'cook'").measures
    a, b, c, d = counts
    assert ratio.estimate == pytest.approx(a / (a + b) * (c + d) / c)
    assert odds.estimate == pytest.approx(a * d / (b * c))
    reversed_roles = release.risks("job = 'cook'", "sex = 'F'").measures[2]
    assert reversed_roles.estimate == pytest.approx(odds.estimate)
    older = release.risks("sex = 'F'", "job = 'cook'", "age > 40 OR job = 'cook'")
    assert older.measures[0].estimate != pytest.approx(release.risks("sex = 'F'", "job = 'cook'").measures[0].estimate)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--between", "sex"], "two columns, not 1"),
        (["--between", "sex,sex"], "two different columns"),
        (["--between", "sex,job", "--exposed", "age > 3"], "does not go with"),
        (["--between", "sex,job", "--normaliser", "third"], "entropy of the first or the second"),
        (["--exposed", "sex = 'F'"], "--outcome needs a condition"),
        ([], "--exposed needs a condition"),
        (["--exposed", "sex = 'F'", "--outcome", "upper(job) = 'COOK'"], "UPPER"),
        (["--between", "sex,job", "--level", "2"], "between 0 and 1"),
        (["--between", "sex,job", "--where", "age > 1000"], "No published row"),
    ],
)
def test_wrong_questions_get_a_message(release: Release, arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["associate", str(release.folder), *arguments])
    assert isinstance(result.exception, UsageError)
    assert complaint in str(result.exception)


def test_associate_and_power_on_the_command_line(release: Release) -> None:
    run = CliRunner()
    shown = run.invoke(app, ["associate", str(release.folder), "--between", "sex,job"])
    assert shown.exit_code == 0
    assert "Cramer's V" in shown.stdout
    assert "degrees of freedom" in shown.stdout
    told = json.loads(run.invoke(app, ["associate", str(release.folder), "--between", "sex,job", "--json"]).stdout)
    assert told["test"]["degrees"] == 10  # 3 sexes and 6 jobs, the missing ones counted
    shown = run.invoke(app, ["power", str(release.folder), "--by", "sex,job", "--width", "0.05"])
    assert shown.exit_code == 0
    assert "records_for_width" in shown.stdout


# --- nearness ---------------------------------------------------------------------------------------------------------


def test_without_noise_nothing_is_far(tmp_path: Path) -> None:
    table = people(ROWS).select(["sex", "age", "job"]).drop_null()
    release = quiet(table, "job", tmp_path / "r")
    found = nearness(release, table, ["sex", "job"])
    assert found.distances.l1 == pytest.approx(0, abs=1e-9)
    assert found.base.mean == pytest.approx(0, abs=1e-9)
    assert found.cube.pooled.cells == found.base.cells + 2 + 5 + 1


def test_noise_is_measured_and_told(release: Release, tmp_path: Path) -> None:
    """Correcting brings nearer than counting the published rows; the command line prints and writes the same."""
    pq.write_table(people(ROWS), tmp_path / "truth.parquet")
    found = nearness(release, tmp_path / "truth.parquet", ["job"])
    assert 0 < found.distances.l2 < found.naive.l2
    arguments = ["estimate", str(release.folder), "--by", "job", "--truth", str(tmp_path / "truth.parquet")]
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert told["distances"]["l2"] == found.distances.l2
    assert "intervals hold the true count" in CliRunner().invoke(app, arguments).stdout
    for wrong in (["--where", "age > 3"], ["SELECT COUNT(*) FROM release"]):
        assert isinstance(CliRunner().invoke(app, [*arguments, *wrong]).exception, UsageError)


# --- files and pictures -----------------------------------------------------------------------------------------------


def test_answers_are_written_and_drawn(release: Release, tmp_path: Path) -> None:
    query = "SELECT sex, job, COUNT(*) AS n, AVG(income) AS mean FROM release GROUP BY CUBE (sex, job)"
    for name in ("a.csv", "a.json", "a.parquet", "a.arrow"):
        arguments = ["estimate", str(release.folder), query, "-o", str(tmp_path / name)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert "exists already" in str(CliRunner().invoke(app, arguments).exception)
    read = pq.read_table(tmp_path / "a.parquet")
    assert read.column_names == ["sex", "job", "figure", "estimate", "standard_error", "lower", "upper"]
    assert read.num_rows == release.sql(query).value.size
    picture = ["estimate", str(release.folder), "--by", "job", "--plot", str(tmp_path / "a.svg")]
    assert CliRunner().invoke(app, picture).exit_code == 0
    assert "farmer" in (tmp_path / "a.svg").read_text()


def test_several_figures_stand_in_rows_of_their_own(release: Release) -> None:
    both = release.sql(
        "SELECT job, COUNT(*) AS n, AVG(income) AS mean FROM release GROUP BY job ORDER BY n DESC LIMIT 2"
    )
    assert both.by == ("job", "figure")
    assert [group[1] for group in both.groups] == ["n", "mean"] * 2
    for figure, text in (("n", "COUNT(*)"), ("mean", "AVG(income)")):
        alone = release.sql(f"SELECT job, {text} AS x FROM release GROUP BY job")
        due = dict(zip((g[0] for g in alone.groups), alone.value, strict=True))
        for (job, name), value in zip(both.groups, both.value, strict=True):
            assert name != figure or value == due[job]
