"""The uncorrected figure beside an estimate: the same query to DuckDB, of the published rows as they are."""

from __future__ import annotations

import duckdb
import pytest

from sfumato.analyst.uncorrected import at_its_word, has_sets
from sfumato.release.folder import quoted
from tests.studio.analyst.releases import IN_SETS, POLICIES, SECRET, VALUES, made, secret_of

QUERIES = (
    "SELECT {k}, COUNT(*) FROM release WHERE {s} = {v} GROUP BY {k}",
    "SELECT {k}, {s}, COUNT(*) FROM release WHERE NOT ({k} IS NULL AND {s} = {v}) GROUP BY {k}, {s}",
    "SELECT {s}, COUNT(*) / SUM(COUNT(*)) OVER () FROM release GROUP BY {s}",
    "SELECT {k}, {s}, 100 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY {k}) FROM release GROUP BY {k}, {s}",
    "SELECT {k}, COUNT(*) FROM release WHERE {s} = {v} OR {k} IN ('F', '[25, 50)') GROUP BY {k}",
)


@pytest.mark.parametrize("kind", ["uniform", "fine-grain", "plateau", "small-domain", "randomized-response"])
@pytest.mark.parametrize("query", QUERIES)
def test_it_is_what_the_published_rows_say(kind: str, query: str) -> None:
    release = made(kind)
    secret = secret_of(release)
    value = {"pain": "3", "sex": "'M'"}.get(secret, f"'{VALUES[0]}'")
    text = query.format(s=quoted(secret), v=value, k="age" if secret == "sex" else "sex")
    rows = duckdb.sql(text.replace("FROM release", f"FROM '{release.data}'")).fetchall()
    counted = {tuple(map(str, row[:-1])): row[-1] for row in rows}
    answer = at_its_word(release).sql(text)
    found = dict(zip([tuple(map(str, group)) for group in answer.groups], answer.value.tolist(), strict=True))
    assert {group: found.pop(group) for group in counted} == pytest.approx(counted)
    assert not any(found.values())  # groups that no row has


@pytest.mark.parametrize("kind", POLICIES)
def test_sets_and_cards_are_known(kind: str) -> None:
    assert has_sets(made(kind)) == (kind in IN_SETS)


def test_the_release_itself_stays_as_it_is() -> None:
    release = made("uniform")
    before = release.count(SECRET).value.tolist()
    at_its_word(release).count(SECRET)
    assert release.count(SECRET).value.tolist() == before
