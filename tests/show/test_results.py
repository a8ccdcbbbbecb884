"""What users expect of every result: a short text, a table in a notebook, Arrow, pandas, polars, and a picture."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.show.files import rows_of
from sfumato.show.pictures import Picture
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

COLUMN, VALUES = "<script>alert('c')</script>", ["<b>flu</b>", "gout & more", "mumps", "measles"]
ROLES = {"sex": "quasi_identifier", "age": "quasi_identifier", COLUMN: "sensitive"}
SHARES = [0.4, 0.3, 0.2, 0.1]
ROWS = 613


def people() -> pa.Table:
    """Return a table whose names and values would like to be HTML."""
    rng = np.random.default_rng(3)
    values = rng.choice(VALUES, ROWS, p=SHARES)
    return pa.table({"sex": rng.choice(["F", "M"], ROWS), "age": rng.integers(20, 30, ROWS), COLUMN: values})


@dataclass(frozen=True)
class Flow:
    """A table on its way through the house."""

    table: sf.Table
    profile: sf.Profile
    plan: Any
    release: sf.Release

    def planned(self, method: str, requirement: str) -> Any:
        """Return the plan of another method."""
        table = sf.scan(people(), make_policy(ROLES, requirement, method))
        return sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    """Publish once for all tests."""
    table = sf.scan(people(), make_policy(ROLES, "rho1 = 0.45\nrho2 = 0.9"))
    counted = sf.profile(table)
    plan = sf.plan(counted, table.policy.method, table.policy.requirement)
    folder = tmp_path_factory.mktemp("results") / "release"
    return Flow(table, counted, plan, sf.publish(table, plan, folder, key=SecretKey.from_seed(1)))


def _estimated_risk(flow: Flow) -> sf.SampledRisks:
    table = sf.scan(people(), make_policy(ROLES, "l = 2", "randomized-response"))
    return sf.estimate_risk(sf.profile(table), {"sex": 0.5, COLUMN: 0.5}, cells=3, samples=20, seed=1)


QUERY = f'SELECT sex, "{COLUMN}", COUNT(*) FROM release GROUP BY sex, "{COLUMN}"'
PUBLIC: dict[str, Callable[[Flow], Any]] = {
    "Answer": lambda flow: flow.release.sql(QUERY),
    "JointTable": lambda flow: flow.release.table(["sex", COLUMN]),
    "Comparison": lambda flow: flow.release.association("sex", COLUMN),
    "Power": lambda flow: flow.release.power(COLUMN),
    "Verification": lambda flow: flow.release.verify(),
    "Release": lambda flow: flow.release,
}
PRIVATE: dict[str, Callable[[Flow], Any]] = {
    "Table": lambda flow: flow.table,
    "Profile": lambda flow: flow.profile,
    "Plan": lambda flow: flow.plan,
    "Plan of buckets": lambda flow: flow.planned("anatomy", "l = 2"),
    "Plan of several columns": lambda flow: flow.planned("randomized-response", "l = 2"),
    "SampledRisks": _estimated_risk,
    "Audit": lambda flow: sf.audit(flow.table, flow.release, seed=1),
    "MethodComparison": lambda flow: sf.compare(flow.table, repeat=1, seed=1),
}
RESULTS = PUBLIC | PRIVATE
NOT_DRAWN = ("Verification", "Release", "Table")
"""They have no figures."""


@pytest.fixture(scope="module", params=RESULTS)
def result(request: pytest.FixtureRequest, flow: Flow) -> Any:
    """Give each result."""
    made = RESULTS[request.param](flow)
    assert type(made).__name__ == request.param.split()[0]
    return made


def test_its_text_begins_with_what_it_is_in_one_line(result: Any) -> None:
    """A result is not shown as all its fields."""
    first = repr(result).splitlines()[0]
    assert first.startswith(f"{type(result).__name__}(")
    assert len(first) < 150


def test_it_is_taken_by_whoever_takes_arrow(result: Any) -> None:
    """The same rows reach Arrow, its C stream, pandas and polars."""
    table = result.to_arrow()
    assert table.num_rows > 0
    assert pa.table(result).equals(table)
    assert pa.RecordBatchReader.from_stream(result).read_all().equals(table)
    assert list(result.to_pandas().columns) == table.column_names
    assert len(result.to_pandas()) == table.num_rows
    assert polars.DataFrame(result).equals(result.to_polars())
    assert result.to_polars().columns == table.column_names
    assert duckdb.sql("SELECT count(*) FROM result").fetchall() == [(table.num_rows,)]


def test_its_html_has_no_markup_of_the_table(result: Any) -> None:
    """Names and values are text, whatever they look like."""
    shown = result._repr_html_()
    assert "<script" not in shown
    assert "<b>" not in shown
    assert set(re.findall(r"</?(\w+)", shown)) <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_result_tells_sizes_only(name: str, flow: Flow) -> None:
    """No value, count or risk of the table is seen by accident: only its rows and numbers of columns, values, cells."""
    made = PRIVATE[name](flow)
    text = repr(made)
    assert made._repr_html_().startswith("<p>")
    assert "private" in text
    assert not any(value in text for value in VALUES)
    assert not set(map(str, flow.profile.counts.tolist())) & set(re.findall(r"\d+", text))
    assert not re.search(r"\d\.\d|%", text)


@pytest.mark.parametrize("name", ["Answer", "JointTable", "Comparison", "Power", "Verification"])
def test_a_public_result_shows_its_rows(name: str, flow: Flow) -> None:
    """A notebook shows a row for each row."""
    made = PUBLIC[name](flow)
    assert made._repr_html_().count("<tr>") == made.to_arrow().num_rows + 1


def test_a_release_shows_its_columns(flow: Flow) -> None:
    """Its rows may be many millions."""
    assert flow.release._repr_html_().count("<tr>") == 1 + 3
    assert f"{ROWS:,} rows" in repr(flow.release)


def test_a_long_result_is_cut(flow: Flow) -> None:
    """The notebook says how many rows there are besides."""
    answer = flow.release.count(by=["sex", "age", COLUMN])
    shown, rows = answer._repr_html_(), answer.to_arrow().num_rows
    assert shown.count("<tr>") == 1 + 50
    assert f"... and {rows - 50} more rows" in shown


def test_its_picture_shows_itself_and_is_saved(result: Any, tmp_path: Path) -> None:
    """plot() returns a picture; with a file it writes it as well, and never over another."""
    if type(result).__name__ in NOT_DRAWN:
        assert not hasattr(result, "plot")
        return
    picture = result.plot(tmp_path / "drawn.svg", title="A title")
    assert isinstance(picture, Picture)
    assert repr(picture) == "Picture('A title')"
    assert picture._repr_svg_().startswith("<svg")
    assert picture._repr_svg_() == (tmp_path / "drawn.svg").read_text(encoding="utf-8")
    assert "<script" not in picture._repr_svg_()
    picture.save(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="exists already"):
        picture.save(tmp_path / "drawn.svg")
    assert repr(result.plot()) != "Picture('')" or type(result).__name__ in ("Answer", "JointTable")


def test_without_pandas_or_polars_the_error_says_what_to_do(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no dependencies."""
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(UsageError, match=f"needs the package {name}") as problem:
            getattr(flow.profile, f"to_{name}")()
        assert "to_arrow()" in problem.value.hint


def test_a_profile_gives_its_counts_where_they_are_asked_for(flow: Flow) -> None:
    """The rows are those that counting the table gives."""
    counted = {row[COLUMN]: row["records"] for row in rows_of(flow.profile.to_arrow())}
    values = people()[COLUMN].to_pylist()
    assert counted == {value: values.count(value) for value in VALUES}
    assert flow.plan.to_arrow()["records"].to_pylist() == [counted[v] for v in flow.plan.to_arrow()[COLUMN].to_pylist()]
    assert flow.table.to_arrow().equals(people())
