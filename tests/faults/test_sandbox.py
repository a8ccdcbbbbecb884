"""Questions that want more than the release: each is refused with a sentence, and nothing happens."""

from __future__ import annotations

import json

import duckdb
import pytest

from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from sfumato.release.folder import connected
from tests.engines.tools import patients, released
from tests.fuzz.watch import outside, watched

SECRET = "planted-words-of-another-file"
STATEMENTS = """
COPY release TO '{out}'
COPY (SELECT * FROM release) TO '{out}' (FORMAT csv)
COPY release FROM '{other}'
EXPORT DATABASE '{out}'
IMPORT DATABASE '{out}'
ATTACH '{out}' AS d
ATTACH ':memory:' AS d
ATTACH 'https://localhost:9/x.db'
DETACH memory
USE memory
INSTALL httpfs
LOAD httpfs
LOAD '{other}'
FORCE INSTALL spatial
UPDATE EXTENSIONS
PRAGMA database_list
PRAGMA version
PRAGMA enable_external_access
SET enable_external_access = true
SET lock_configuration = false
SET memory_limit = '100GB'
SET GLOBAL allowed_paths = ['{other}']
RESET lock_configuration
CREATE TABLE t AS SELECT 1
CREATE TEMP TABLE t (a INT)
CREATE VIEW v AS SELECT * FROM release
CREATE OR REPLACE VIEW release AS SELECT 1
CREATE MACRO f(x) AS x
CREATE SECRET s (TYPE s3)
CREATE TYPE m AS ENUM ('a')
CREATE SCHEMA s
CREATE SEQUENCE s
DROP VIEW release
ALTER VIEW release RENAME TO r
INSERT INTO release VALUES (1)
UPDATE release SET sex = 'F'
DELETE FROM release
TRUNCATE release
CALL pragma_version()
EXECUTE p
PREPARE p AS SELECT 1
DEALLOCATE p
VACUUM
CHECKPOINT
ANALYZE
BEGIN TRANSACTION
COMMIT
ROLLBACK
EXPLAIN SELECT COUNT(*) FROM release
EXPLAIN ANALYZE SELECT COUNT(*) FROM release
DESCRIBE release
SHOW TABLES
SUMMARIZE release
FROM release
FROM '{other}'
TABLE release
VALUES (1)
PIVOT release ON sex
SELECT * FROM '{other}'
SELECT COUNT(*) FROM '{other}'
SELECT COUNT(*) FROM read_csv('{other}')
SELECT COUNT(*) FROM read_csv_auto('{other}')
SELECT COUNT(*) FROM read_parquet('{other}')
SELECT COUNT(*) FROM parquet_scan('{other}')
SELECT COUNT(*) FROM read_json('{other}')
SELECT COUNT(*) FROM read_text('{other}')
SELECT COUNT(*) FROM read_blob('{other}')
SELECT COUNT(*) FROM sniff_csv('{other}')
SELECT COUNT(*) FROM parquet_metadata('{other}')
SELECT COUNT(*) FROM glob('/*')
SELECT COUNT(*) FROM 'https://localhost:9/x.csv'
SELECT COUNT(*) FROM duckdb_settings()
SELECT COUNT(*) FROM duckdb_secrets()
SELECT COUNT(*) FROM pragma_database_list()
SELECT COUNT(*) FROM information_schema.tables
SELECT COUNT(*) FROM sqlite_master
SELECT COUNT(*) FROM main.release
SELECT COUNT(*) FROM memory.main.release
SELECT COUNT(*) FROM compositions
SELECT COUNT(*) FROM release, '{other}'
SELECT COUNT(*) FROM release JOIN release AS r ON TRUE
SELECT COUNT(*) FROM release CROSS JOIN range(1000000000)
SELECT COUNT(*) FROM release NATURAL JOIN release r
SELECT COUNT(*) FROM range(1000000000000)
SELECT COUNT(*) FROM generate_series(1, 1000000000000)
SELECT COUNT(*) FROM (SELECT * FROM '{other}')
SELECT COUNT(*) FROM release WHERE sex IN (SELECT column0 FROM read_csv('{other}'))
SELECT COUNT(*) FROM release WHERE sex = (SELECT content FROM read_text('{other}'))
SELECT COUNT(*) FROM release WHERE EXISTS (SELECT 1 FROM glob('/*'))
SELECT COUNT(*) FROM release WHERE sex = getenv('HOME')
SELECT COUNT(*) FROM release WHERE sex = current_setting('threads')
SELECT COUNT(*) FROM release WHERE regexp_matches(sex, '(a+)+$')
SELECT COUNT(*) FROM release WHERE sex SIMILAR TO '(a|a)*b'
SELECT COUNT(*) FROM release WHERE sex ~ '(a+)+$'
SELECT COUNT(*) FROM release WHERE repeat('a', 1000000000) = sex
SELECT COUNT(*) FROM release WHERE len(list_value(range(1000000000))) > 1
SELECT COUNT(*) FROM release WHERE random() < 0.5
SELECT COUNT(*) FROM release WHERE sex = error('x')
SELECT COUNT(*) FROM release WHERE sex = 'F'; DROP VIEW release
SELECT COUNT(*) FROM release; SELECT 1
SELECT COUNT(*) FROM release; COPY release TO '{out}'
SELECT COUNT(*) FROM release /* */; SET threads = 1
SELECT COUNT(*) FROM release -- x\\n;COPY release TO '{out}'
SELECT COUNT(*) FROM release UNION SELECT 1
SELECT COUNT(*) FROM release EXCEPT SELECT 1
SELECT COUNT(*) FROM release INTERSECT SELECT 1
WITH r AS (SELECT * FROM '{other}') SELECT COUNT(*) FROM r
WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT COUNT(*) FROM r
WITH release AS (SELECT 1) SELECT COUNT(*) FROM release
SELECT getenv('HOME')
SELECT getenv('HOME'), COUNT(*) FROM release
SELECT read_text('{other}')
SELECT (SELECT content FROM read_text('{other}')), COUNT(*) FROM release
SELECT current_setting('memory_limit'), COUNT(*) FROM release
SELECT version(), COUNT(*) FROM release
SELECT * FROM release
SELECT string_agg(sex, ',') FROM release
SELECT list(sex) FROM release
SELECT histogram(sex) FROM release
SELECT unnest(range(1000000000)), COUNT(*) FROM release GROUP BY ALL
SELECT COUNT(*) FROM release GROUP BY getenv('HOME')
SELECT COUNT(*) FROM release ORDER BY (SELECT content FROM read_text('{other}'))
SELECT COUNT(*) FROM release LIMIT (SELECT COUNT(*) FROM glob('/*'))
SELECT COUNT(*) FROM release TABLESAMPLE 10%
SELECT COUNT(*) FROM release USING SAMPLE 10
SELECT COUNT(*) FROM release QUALIFY row_number() OVER () = 1
SELECT COUNT(*) FROM release WHERE sex = $1
SELECT COUNT(*) FROM release WHERE sex = ?
SELECT COUNT(*) FROM ｒｅｌｅａｓｅ
SELECT COUNT(*) FROM "release\\u202e"
SELECT COUNT(*) FROM re\\u200blease
""".strip().split("\n")
CONDITIONS = """
sex IN (SELECT column0 FROM read_csv('{other}'))
sex = (SELECT content FROM read_text('{other}'))
EXISTS (SELECT 1 FROM '{other}')
sex = getenv('HOME')
sex = current_setting('threads')
TRUE; COPY release TO '{out}'
TRUE) TO '{out}' --
1 = 1 UNION SELECT 1
regexp_matches(sex, '(a+)+$')
sex ~ '(a+)+$'
list_contains(range(1000000000), age)
age = ANY (SELECT range FROM range(1000000000))
age IN (SELECT * FROM generate_series(1, 1000000000))
repeat('a', 1000000000) = sex
random() < 0.5
columns('.*') = 'F'
sex = $1
CASE WHEN sex = getenv('HOME') THEN TRUE ELSE FALSE END
age = (WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT COUNT(*) FROM r)
x -> x
sex = {{'a': 1}}
sex = [1]
age::VARCHAR = '1'
CAST(sex AS BLOB) = 'F'
age BETWEEN (SELECT 1) AND 3
""".strip().split("\n")
SETTINGS = "SELECT name, value FROM duckdb_settings() WHERE name <> 'search_path' ORDER BY 1"
"""All but one that a connection has for itself, and that ends with it."""
HUGE = {
    "terms": " OR ".join(f"age = {k}" for k in range(5000)),
    "a list": f"age IN ({', '.join(map(str, range(200_000)))})",
    "parentheses": "(" * 5000 + "age = 1" + ")" * 5000,
    "negations": "NOT " * 5000 + "age = 1",
    "a number": f"age = {'9' * 100_000}",
    "a text": f"sex = '{'x' * 10_000_000}'",
    "sums": "age = " + "+".join(["1"] * 5000),
    "powers": "age " + "* 1000000000 " * 40 + "> 1",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "other.csv").write_text(f"column0\n{SECRET}\n")
    return released(patients(), folder=folder / "r")


def refused(release: Release, text: str, ask: str) -> str:
    """Ask; return how it was refused, having seen that nothing else happened."""
    folder = release.folder.parent
    before = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}
    with watched() as seen, pytest.raises(UsageError) as problem:
        release.sql(text) if ask == "sql" else release.count(where=text)
    assert outside(seen, [release.folder], []) == []
    assert {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")} == before
    assert SECRET not in str(problem.value)
    return str(problem.value)


def filled(text: str, release: Release) -> str:
    """Return a text with the files that it is about, and the letters that it has as codes."""
    for code, letter in (("\\n", "\n"), ("\\u202e", "\u202e"), ("\\u200b", "\u200b")):
        text = text.replace(code, letter)
    return text.format(out=release.folder.parent / "out", other=release.folder.parent / "other.csv")


def test_there_are_over_a_hundred() -> None:
    assert len(STATEMENTS) + len(CONDITIONS) > 150


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements_are_refused(text: str, release: Release) -> None:
    assert refused(release, filled(text, release), "sql").strip()


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_are_refused(text: str, release: Release) -> None:
    assert refused(release, filled(text, release), "where").strip()


@pytest.mark.parametrize("text", [*STATEMENTS[:24], *STATEMENTS[58:73]])
def test_the_database_itself_reaches_nothing(text: str, release: Release) -> None:
    """Behind the reader of questions stands the database, whose settings are locked."""
    folder = release.folder.parent
    before = sorted(path.name for path in folder.iterdir())
    with connected(release) as database:
        settings = database.sql(SETTINGS).fetchall()
        try:
            told = database.sql(filled(text, release))
            rows = [] if told is None else told.fetchall()
        except duckdb.Error as problem:
            rows = [(str(problem),)]
        assert SECRET not in json.dumps(rows, default=str)
        assert database.sql(SETTINGS).fetchall() == settings
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("what", HUGE)
def test_huge_questions_end_early(what: str, release: Release) -> None:
    """Refused in few words, or answered from the rows there are."""
    told = ""
    try:
        release.count(where=HUGE[what])
    except UsageError as problem:
        told = str(problem)
    assert len(told) < 2000
