"""What is quoted in a published CSV file tells of published values only, not of how the source was written.

A source has quotes where a true value needs them. If they changed how the other columns are published, one record with
such a value would be told to somebody who knows all others.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.conftest import make_policy
from tests.engines.tools import released

DOMAIN = "['flu', 'COPD, severe', 'a \"cold\"']"
COLUMNS = ("age", "sex", "disease", "ward")
ROLES = {
    "age": "quasi_identifier",
    "sex": "quasi_identifier",
    "disease": f"sensitive; domain = {DOMAIN}",
    "ward": "other",
}


def published(folder: Path, last: str, order: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Publish twenty known records and one more; return how sensitive and how other values are written."""
    folder.mkdir()
    rows = [{"age": str(30 + k), "sex": "F", "disease": "flu", "ward": "W 1"} for k in range(20)]
    rows.append({"age": "50", "sex": "M", "disease": last, "ward": "W 2"})
    with open(folder / "table.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, order)
        writer.writeheader()
        writer.writerows(rows)
    release = released(folder / "table.csv", make_policy(ROLES, "gamma = 3"), folder=folder / "out", format="csv")
    _, *lines = release.data.read_text().splitlines()
    place = order.index("disease")
    secret, others = set(), set()
    for line in lines:
        for known in ('"COPD, severe"', '"a ""cold"""', "flu"):
            before, found, after = line.partition(known)
            if found:
                secret.add(found)
                others |= {*before.split(","), *after.split(",")}
                assert before.count(",") == place
    return secret, others - {""}


@pytest.mark.parametrize("order", [COLUMNS, ("disease", "age", "sex", "ward"), ("age", "disease", "sex", "ward")])
def test_no_other_column_tells_that_a_true_value_had_quotes(tmp_path: Path, order: tuple[str, ...]) -> None:
    told = {last: published(tmp_path / str(k), last, order) for k, last in enumerate(["flu", "COPD, severe"])}
    assert all(len(secret) == 3 for secret, _ in told.values())  # values that need quotes were drawn
    assert told["flu"][1] == told["COPD, severe"][1]
    assert not any('"' in text for text in told["flu"][1])
