"""Long texts in CSV: read back as they were, or refused with the limit that they are beyond."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.errors import TableError
from tests.conftest import make_policy
from tests.engines.tools import released

POLICY = {"x": "other", "s": "sensitive"}


def with_long(folder: Path, length: int, quote: str = "") -> Path:
    rows = [f"v{k},{'abc'[k % 3]}" for k in range(60)]
    lines = ["x,s", *rows[:30], f"{quote}{'y' * length}{quote},a", *rows[30:], ""]
    (folder / "t.csv").write_text("\n".join(lines))
    return folder / "t.csv"


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_text_comes_back(quote: str, tmp_path: Path) -> None:
    release = released(with_long(tmp_path, 900_000, quote), make_policy(POLICY), folder=tmp_path / "r", format="csv")
    assert max(map(len, release.to_arrow()["x"].to_pylist())) == 900_000


def test_what_readers_of_csv_refuse_is_not_published_as_csv(tmp_path: Path) -> None:
    table = with_long(tmp_path, 2_100_000)
    with pytest.raises(TableError, match="'x' holds a text of more than 1,900,000 bytes"):
        released(table, make_policy(POLICY), folder=tmp_path / "r", format="csv")
    assert not (tmp_path / "r").exists()
    release = released(table, make_policy(POLICY), folder=tmp_path / "r", format="parquet")
    assert max(map(len, release.to_arrow()["x"].to_pylist())) == 2_100_000


def test_line_breaks_do_not_hide_a_long_text(tmp_path: Path) -> None:
    table = pa.table({"x": ["a\n" * 1_000_000, *"bcdef"], "s": list("abcabc")})
    with pytest.raises(TableError, match="'x' holds a text of more than"):
        released(table, make_policy(POLICY), folder=tmp_path / "r", format="csv")


def test_a_long_row_among_quoted_ones_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 32: the row has more than 1,048,576 bytes"):
        released(with_long(tmp_path, 2_100_000, '"'), make_policy(POLICY), folder=tmp_path / "r")
