"""Questions at the border of what can be asked: nothing is ignored in silence, and every message is true."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import chi2_contingency
from typer.testing import CliRunner

from sfumato.analyst.release import Release
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.release import folder as reading
from tests.analyst.test_sql import people, policy
from tests.conftest import make_policy
from tests.engines.tools import released


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(people(400), policy("fine-grain"), folder=tmp_path_factory.mktemp("corners") / "r")


def odd_names(folder: Path) -> Release:
    """Return a release of columns with names that SQL could mistake."""
    rng = np.random.default_rng(1)
    numbers = {name: rng.integers(1, 9, 300) for name in ("c0", "c1", "x FILTER (WHERE ", "figure", "records")}
    table = pa.table({**numbers, "large": pa.array([2**63 + 5, 3] * 150, pa.uint64()), "job": ["a", "b", "c"] * 100})
    roles = {name: "sensitive" if name == "job" else "other" for name in table.column_names}
    return released(table, make_policy(roles, "epsilon = 2"), folder=folder)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT COUNT(*) FROM release PIVOT (COUNT(*) FOR sex IN ('F'))", "PIVOT"),
        ("SELECT COUNT(*) FROM release AS r(job, sex)", "alias with columns"),
        ("SELECT sex, COUNT(*) FROM release GROUP BY sex LIMIT 50%", "LIMIT takes a number|cannot be read"),
        ("SELECT sex, COUNT(*) FROM release GROUP BY sex LIMIT '2'", "LIMIT takes a number"),
        ("SELECT job, COUNT(*) FROM release GROUP BY job ORDER BY job NULLS FIRST", "NULLS FIRST"),
        ("SELECT sex AS s, COUNT(*) FROM release GROUP BY sex", "keep the names"),
        ("SELECT AS STRUCT COUNT(*) FROM release", "KIND|cannot be read"),
        ("SELECT 0 * COUNT(*) FROM release", "cannot be corrected"),
        (f"SELECT COUNT(*) FROM release GROUP BY CUBE ({', '.join(['sex'] * 25)})", "cube of 25 columns"),
        ("SELECT COUNT(*) FROM release WHERE " + " AND ".join(["age > 3"] * 3000), "3,000 terms, more than 200"),
        ("SELECT COUNT(*) FROM release WHERE age % 0 = 1 AND sex IS 'F'", "does not fit|cannot be read|not allowed"),
        ("SELECT COUNT(*) FROM release WHERE sex = '\ud800'", "broken character"),
    ],
)
def test_what_is_not_meant_is_refused(release: Release, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        release.sql(text)


def test_factors_count_wherever_they_stand(release: Release) -> None:
    plain = release.sql("SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM release GROUP BY sex")
    half = release.sql("SELECT sex, COUNT(*) / SUM(2 * COUNT(*)) OVER () AS s FROM release GROUP BY sex")
    assert half.value == pytest.approx(plain.value / 2)
    percent = release.sql("SELECT COUNT(*) / 100 AS hundreds, COUNT(1) AS n FROM release")
    assert percent.value.tolist() == [4, 400]


def test_a_value_that_nobody_can_have_is_told(release: Release) -> None:
    """One row, as SQL gives, and a note; also where no published row is left."""
    answer = release.sql("SELECT COUNT(*) FROM release WHERE job = 'Cook'")
    assert (answer.value.tolist(), answer.standard_error.tolist()) == ([0], [0])
    assert answer.notes[0] == "No value of 'job' satisfies the condition."
    assert (
        "No published row satisfies the condition." in release.sql("SELECT COUNT(*) FROM release WHERE age > 999").notes
    )


def test_names_that_look_like_sql(tmp_path: Path) -> None:
    release = odd_names(tmp_path / "r")
    rows = release.to_arrow()
    by_first = release.sql("SELECT c1, COUNT(*) FROM release GROUP BY c1")
    assert dict(zip((g[0] for g in by_first.groups), by_first.value, strict=True)) == {
        value: rows.column("c1").to_pylist().count(value) for value in set(rows.column("c1").to_pylist())
    }
    assert release.table(["c0", "job"]).value.sum() == pytest.approx(300)
    total = release.sql('SELECT SUM("x FILTER (WHERE ") FROM release')
    parts = release.sql('SELECT job, SUM("x FILTER (WHERE ") FROM release GROUP BY job').value.sum()
    assert float(total.value[0]) == pytest.approx(float(parts))
    one = release.sql("""SELECT SUM("x FILTER (WHERE ") FROM release WHERE job = 'a'""")
    again = release.sql('SELECT job, SUM("x FILTER (WHERE ") FROM release GROUP BY job ORDER BY job LIMIT 1')
    assert float(one.value[0]) == pytest.approx(float(again.value[0]))
    both = release.sql("SELECT figure, COUNT(*) AS n, AVG(c0) AS mean FROM release GROUP BY figure")
    assert both.by == ("figure", "figure_")
    both.plot(tmp_path / "both.svg")
    assert (
        release.sql("SELECT large, COUNT(*) FROM release GROUP BY large").to_arrow().column("large")[1].as_py() > 2**63
    )
    assert "records_" in release.power("records").rows()[0]


def test_numbers_in_the_text_of_a_csv_table(tmp_path: Path) -> None:
    """SUM, AVG and weights work where every text is a number; else the message names one that is not."""
    rows = people(300).select(["sex", "age", "w", "job"]).drop_null()
    pa.csv.write_csv(rows, tmp_path / "t.csv")
    roles = {"sex": "other", "age": "other", "w": "other", "job": "sensitive"}
    release = released(tmp_path / "t.csv", make_policy(roles, "epsilon = 2"), folder=tmp_path / "r")
    mean = release.sql("SELECT AVG(age) FROM release", weight="w")
    ages, weights = np.array(rows["age"].to_pylist()), np.array(rows["w"].to_pylist())
    assert float(mean.value[0]) == pytest.approx((ages * weights).sum() / weights.sum())
    with pytest.raises(UsageError, match="hold no number"):
        release.sql("SELECT COUNT(*) FROM release", weight="sex")


def test_sparse_tables_have_no_interval_of_the_uncertainty_coefficient(release: Release) -> None:
    sparse = release.association("age", "job")
    assert np.isnan(sparse.measures[0].lower)
    assert "no interval" in sparse.measures[0].note
    assert not np.isnan(sparse.measures[1].upper)
    said = [note for note in sparse.notes if "a weak test" in note]
    cells = sparse.test.degrees if sparse.test else 0
    assert cells > 100
    assert len(said) == 1
    assert "Values of age are too many: compare bands of it (--exposed and --outcome" in said[0]
    dense = release.association("sex", "job", "sex IS NOT NULL")
    assert not np.isnan(dense.measures[0].lower)  # some 380 rows in 2 x 6 cells
    assert not [note for note in dense.notes if "a weak test" in note]


def test_the_test_of_independence_has_no_floor(release: Release) -> None:
    """With one matrix it is Pearson's on the published rows, however small the groups are."""
    found = release.association("age", "job").test
    assert found is not None
    assert found.statistic == pytest.approx(found.naive_statistic, rel=1e-6)


METHODS = {
    "randomized": ("uniform", "epsilon = 2"),
    "in groups": ("anatomy", "l = 2"),
}


@pytest.mark.parametrize("where", ["", "w < 2"])
@pytest.mark.parametrize("name", METHODS)
def test_between_untouched_columns_nothing_is_corrected(name: str, where: str, tmp_path: Path) -> None:
    """The test is Pearson's of the rows that a condition takes, whatever happened to a third column."""
    method, requirement = METHODS[name]
    rows = people(400).select(["sex", "age", "w", "job"]).drop_null()
    roles = {"sex": "quasi_identifier", "age": "quasi_identifier", "w": "quasi_identifier", "job": "sensitive"}
    release = released(rows, make_policy(roles, requirement, method), folder=tmp_path / "r")
    found = release.association("sex", "age", where).test
    assert found is not None
    kept = rows.filter(pc.less(rows["w"], 2)) if where else rows
    counts = Counter(zip(kept["sex"].to_pylist(), kept["age"].to_pylist(), strict=True))
    sexes, ages = ({key[k] for key in counts} for k in (0, 1))
    pearson = chi2_contingency([[counts[sex, age] for age in ages] for sex in sexes], correction=False)
    assert (found.statistic, found.naive_statistic) == pytest.approx((pearson.statistic, pearson.statistic), rel=1e-8)
    assert found.degrees == pearson.dof


@pytest.mark.parametrize(
    "option", [["-o", "x.csv"], ["--plot", "x.svg"], ["--target", "population"], ["--where", "age > 3"]]
)
def test_what_does_not_go_with_the_truth_is_refused(release: Release, option: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["estimate", str(release.folder), "--by", "sex", "--truth", "t.csv", *option])
    assert isinstance(result.exception, UsageError)
    assert "do not go with --truth" in str(result.exception)


def test_long_queries_print_no_progress(release: Release) -> None:
    """The engine would draw its own bar on standard output, in the middle of JSON."""
    with reading.connected(release) as connection:
        assert connection.sql("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
