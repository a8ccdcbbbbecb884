"""Long texts in CSV: read back as they were, or refused with the limit that they are beyond."""

from __future__ import annotations

import gzip
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.engines.embedded import csv_lines
from sfumato.engines.embedded.sources import open_source
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


PIECE = b"y" * (1 << 20)
ENDLESS = {
    "a value": (b"x,s\nv,a\n", b",a\n"),
    "a quoted value": (b'x,s\nv,a\n"', b'",a\n'),
    "a name": (b"x,", b"\nv,a\n"),
}
"""What is before and behind 200 MB without a line end."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell what a process takes")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("where", ENDLESS)
def test_a_line_that_no_table_has_is_never_whole_in_memory(where: str, packed: bool, tmp_path: Path) -> None:
    before, behind = ENDLESS[where]
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    opened = partial(gzip.open, compresslevel=1) if packed else open
    with opened(path, "wb") as file:  # type: ignore[operator]
        file.write(before)
        for _ in range(200):
            file.write(PIECE)
        file.write(behind)
    asks = f"from sfumato.engines.embedded.sources import open_source\nlist(open_source({str(path)!r}).batches(['s']))"
    done = subprocess.run([sys.executable, "-c", MEASURED.format(asks)], capture_output=True, text=True, check=False)
    line = before.count(b"\n") + 1
    assert f"line {line}: it has more than {csv_lines.LONGEST_LINE:,} bytes" in done.stderr
    assert int(done.stdout) < 400 << 10


MEASURED = """
import re
from pathlib import Path
try:
    exec({!r})
finally:
    print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.parametrize("letter", ["y", "é"])
@pytest.mark.parametrize("before", [0, 400_000])
def test_where_a_long_line_stands_and_its_letters_change_nothing(before: int, letter: str, tmp_path: Path) -> None:
    """Lines are read by stretches of 8 MB, and counted in bytes."""
    path, most = tmp_path / "t.csv", csv_lines.LONGEST_LINE // len(letter.encode())
    for length, fits in ((most - 100, True), (most + (1 << 20), False)):
        path.write_text("x,s\n" + "a value before,a\n" * before + letter * length + ",a\n")
        source = open_source(path)
        if fits:
            assert sum(batch.rows.num_rows for batch in source.batches(["s"])) == before + 1
        else:
            with pytest.raises(TableError, match=f"line {before + 2}: it has more than 16,777,216 bytes"):
                list(source.batches(["s"]))


def test_a_value_of_many_lines_that_is_too_long_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('x,s\nv,a\n"' + ("y" * 99 + "\n") * 180_000 + '",a\n')
    with pytest.raises(TableError, match=r"line .*: a value has more than 16,777,216 letters, or its quote is never"):
        list(open_source(path).batches(["s"]))
