"""A condition can ask for rows of the release and for nothing else, however it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.analyst.ask.where import as_sql, check, parsed
from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from tests.conftest import make_policy
from tests.engines.tools import released

N = 120
TABLE = {
    "sex": ["F", "M", None] * (N // 3),
    "age": list(range(N)),
    "text": [str(k) for k in range(N)],
    "day": pa.array(range(N), pa.date32()),
    "my col": [1, 2] * (N // 2),
    'q"q': ["it's", "x"] * (N // 2),
    "größe": [float(k) for k in range(N)],
}


@pytest.fixture(scope="module", params=["parquet", "csv"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    table = pa.table({**TABLE, "s": np.random.default_rng(0).choice(["a", "b"], N).tolist()})
    roles = {name.replace('"', '\\"'): "other; missing = 'category'" for name in TABLE} | {"s": "sensitive"}
    return released(table, make_policy(roles), folder=tmp_path_factory.mktemp("w") / "r", format=request.param)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("sex = 'F'", 40),
        ("sex = 'F';", 40),
        ("release.sex = 'F'", 40),
        ("SEX = 'F'", 40),
        ("sex IS DISTINCT FROM 'M'", 80),
        ("day < DATE '1970-01-11'", 10),
        ("NOT sex = 'F'", 40),
        ("sex <> 'F' OR sex IS NULL", 80),
        ("sex IN ('F', 'M')", 80),
        ("sex IS NOT NULL AND age BETWEEN 10 AND 19", 7),
        ("sex LIKE 'F%' AND sex ILIKE 'f'", 40),
        ("age % 2 = 0 AND age / 2 < 5 AND age + 1 - 1 >= 0 AND -age <= 0 AND age * 1 = age", 5),
        ("text < 10", 10),
        ("text IN (1, 2, 3)", 3),
        ("text BETWEEN 9 AND 11", 3),
        ("text = '7'", 1),
        ("7 = text", 1),
        ("day < '1970-01-11'", 10),
        ("day BETWEEN '1970-01-03' AND '1970-01-10'", 8),
        ('"my col" = 1', 60),
        ("\"q\"\"q\" = 'it''s'", 60),
        ("größe >= 100", 20),
        ("true", 120),
        ("1 = 2", 0),
        ("sex = 'F' -- the women", 40),
        ("sex = 'F' /* the women */", 40),
        ("sex = 'F' -- */ OR 1=1", 40),
        ("", 120),
        ("   ", 120),
    ],
)
def test_what_can_be_asked(where: str, rows: int, release: Release) -> None:
    assert release.count(where=where).value.tolist() == [rows]
    assert release.count("s", where).value.sum() == pytest.approx(rows)


ATTACKS = [
    "read_csv('/etc/passwd') IS NULL",
    "sex IN (SELECT * FROM read_csv('/etc/passwd'))",
    "sex = (SELECT content FROM read_text('/etc/passwd'))",
    "EXISTS (SELECT 1 FROM release)",
    "sex IN (FROM release)",
    "sex = ANY(SELECT 'F')",
    "age > ALL (SELECT 1)",
    "1 = 1; DROP VIEW release",
    "1 = 1; COPY release TO '/tmp/written-by-a-condition'",
    "1 = 1 UNION SELECT 1",
    "1 = 1 LIMIT 1",
    "1 = 1 ORDER BY age",
    "1 = 1 GROUP BY age",
    "1 = 1 HAVING true",
    "1 = 1 QUALIFY true",
    "1 = 1 USING SAMPLE 1",
    "1 = 1 WINDOW w AS ()",
    "1 = 1) OR (1 = 1",
    "1 = 1) FROM read_csv('/etc/passwd') --",
    "COPY release TO '/tmp/written-by-a-condition'",
    "PRAGMA version",
    "ATTACH '/tmp/written-by-a-condition'",
    "SET memory_limit = '1GB'",
    "INSTALL httpfs",
    "lower(sex) = 'f'",
    "getenv('HOME') = 'x'",
    "random() < 0.5",
    "current_setting('threads') = 1",
    "CAST(age AS VARCHAR) = '1'",
    "age::varchar = '1'",
    "CASE WHEN sex = 'F' THEN true END",
    "sex || 'x' = 'Fx'",
    "sex ~ 'F'",
    "sex SIMILAR TO 'F'",
    "sex GLOB 'F'",
    "x = E'\\x41'",
    "sex = $$F$$",
    "sex = ?",
    "sex = $1",
    "sex = :p",
    "* IS NULL",
    "COLUMNS(*) IS NULL",
    "#1 = 1",
    "rowid = 1",
    "age[1] = 1",
    "{'a': 1} IS NULL",
    "[1] IS NULL",
    "list_transform([1], x -> x) IS NULL",
    "main.release.sex = 'F'",
    "age.x = 1",
    "(age, text) IN ((1, '1'))",
    "(SELECT 1) = 1",
    "ſex = 'F'",
    "sex＝'F'",
    "sex = 'F'\0",
    "`sex` = 'F'",
    'sex = "F"',
    "s = 'a'",
    "S = 'a'",
    '"s" IS NULL',
    "sex = 'F' AND",
    "AND",
    "--",
    ";",
    "'",
    '"',
    "(" * 3000 + "1 = 1" + ")" * 3000,
    "sex",
    "age = 'abc'",
    "age = " + "9" * 60,
    "text > age",
]


@pytest.mark.parametrize("where", ATTACKS, ids=lambda where: where[:40])
def test_what_cannot_be_asked(where: str, release: Release) -> None:
    with pytest.raises(UsageError) as caught:
        release.count("s", where)
    assert caught.value.hint
    assert not Path("/tmp/written-by-a-condition").exists()


def condition_sql(where: str, columns: dict[str, str], randomized: tuple[str, ...]) -> str:
    tree = parsed(where, columns)
    check(tree, columns, randomized)
    return as_sql(tree, columns)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_as_a_value_stays_a_value(text: str) -> None:
    """A quoted text, whatever it holds, comes out as one literal."""
    quoted = "'" + text.replace("'", "''") + "'"
    try:
        sql = condition_sql(f"sex = {quoted}", {"sex": "string"}, ())
    except UsageError:
        return  # refused is safe
    assert sql == f'"sex" = {quoted}'


WORDS = ["sex", "age", "=", "'F'", "(", ")", "AND", "OR", "NOT", "IN", ",", "1", "SELECT", "FROM", "release", ";", "--"]
MORE = ["/*", "*/", "lower", "::", "text", "UNION", "*", "IS", "NULL", "LIKE", "BETWEEN", "[", "]", "$$", "\\", '"']


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS + MORE), max_size=12))
def test_whatever_passes_is_made_of_allowed_parts(words: list[str]) -> None:
    import sqlglot
    from sqlglot import exp

    try:
        sql = condition_sql(" ".join(words), {"sex": "string", "age": "int64"}, ("s",))
    except UsageError:
        return
    (tree,) = sqlglot.parse(f"SELECT 1 WHERE {sql}", dialect="duckdb")
    assert isinstance(tree, exp.Select)
    assert not tree.find(exp.Subquery, exp.Table, exp.Star)
    assert {type(function) for function in tree.find_all(exp.Func)} <= {exp.TryCast, exp.And, exp.Or}
    assert {column.name for column in tree.find_all(exp.Column)} <= {"sex", "age"}
