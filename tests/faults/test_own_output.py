"""A folder of Parquet files never takes a release for originals."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato.engines.embedded.sources import open_source
from sfumato.errors import TableError, UsageError
from tests.engines.tools import listing, patients, released


def test_a_release_cannot_lie_in_the_folder_of_its_table(tmp_path: Path) -> None:
    (tmp_path / "in" / "more").mkdir(parents=True)
    pq.write_table(patients(), tmp_path / "in" / "t.parquet")
    (tmp_path / "link").symlink_to(tmp_path / "in" / "more")
    before = listing(tmp_path)
    for output in ("in/release", "in/more/release", "in/../in/release", "link/release"):
        with pytest.raises(UsageError, match="would lie in the folder of the table"):
            released(tmp_path / "in", folder=tmp_path / output)
    assert listing(tmp_path) == before
    assert released(tmp_path / "in", folder=tmp_path / "release").manifest.data.rows == 300


@pytest.mark.parametrize("place", ["release", "deep/er/release"])
def test_a_folder_with_a_release_in_it_is_no_table(place: str, tmp_path: Path) -> None:
    (tmp_path / "in" / place).parent.mkdir(parents=True)
    pq.write_table(patients().drop_columns(["name"]), tmp_path / "in" / "t.parquet")
    released(patients(), folder=tmp_path / "in" / place)
    with pytest.raises(TableError, match="which is no original"):
        open_source(tmp_path / "in")


def test_a_manifest_of_something_else_above_the_table_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "in").mkdir()
    pq.write_table(patients(), tmp_path / "in" / "t.parquet")
    assert open_source(tmp_path / "in").names
