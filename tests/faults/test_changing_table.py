"""What is published is what was counted and planned: a table that changes meanwhile is not published."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from sfumato.engines import stamps
from sfumato.errors import PlanMismatch
from sfumato.publisher.publish import publish, to_sign
from sfumato.publisher.table import scan
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import ROLES, listing, patients, planned

ROWS = 3000


def cut(path: Path) -> None:
    """Cut the file at the end of a line."""
    text = path.read_bytes()
    os.truncate(path, text.index(b"\n", 3 * len(text) // 4) + 1)


def lengthen(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"patient x,7,F,flu\n" * 50)


def other_values(path: Path) -> None:
    """Change values of the second half, in place: the size stays."""
    text = path.read_bytes()
    half = len(text) // 2
    changed = text[half:].replace(b",flu\n", b",XXX\n").replace(b",gout\n", b",mump\n")
    with open(path, "r+b") as file:
        file.seek(half)
        file.write(changed)


def other_ages(path: Path) -> None:
    """Change a column that nobody counted, in place, and set the time of the last write back."""
    found, text = os.stat(path), path.read_bytes()
    half = len(text) // 2
    with open(path, "r+b") as file:
        file.seek(half)
        file.write(text[half:].replace(b"1,", b"7,"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def replace(path: Path) -> None:
    """Put another table with the same counts and as many rows in the place of the file."""
    other = path.with_name("other")
    pq.write_table(patients(ROWS).set_column(1, "age", pa.array(range(ROWS))), other)
    os.replace(other, path)


def add_file(path: Path) -> None:
    pq.write_table(patients(50, seed=3), path / "more.parquet")


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a CSV file cut at the end of a line": ("t.csv", cut),
    "rows appended to a CSV file": ("t.csv", lengthen),
    "values of the second half": ("t.csv", other_values),
    "values that were not counted": ("t.csv", other_ages),
    "another Parquet file": ("t.parquet", replace),
    "a file more in the folder": ("t", add_file),
    "a file that is gone": ("t.parquet", os.unlink),
}


def written(name: str, folder: Path) -> Path:
    table, path = patients(ROWS), folder / name
    if name.endswith(".csv"):
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    elif name.endswith(".parquet"):
        pq.write_table(table, path)
    else:
        path.mkdir()
        for part in (0, 1):
            pq.write_table(table.slice(part * ROWS // 2, ROWS // 2), path / f"{part}.parquet")
    return path


@pytest.mark.parametrize("when", ["planned", "half published", "all read"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changes_is_not_published(
    change: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=100, STRETCH=1 << 12)
    name, changed = CHANGES[change]
    path = written(name, tmp_path)
    table = scan(path, make_policy(ROLES))
    plan = planned(table)
    if when == "planned":
        changed(path)
    read = 0

    def progress(rows: int) -> None:
        nonlocal read
        before, read = read, read + rows
        due = ROWS // 2 if when == "half published" else ROWS
        if when != "planned" and before < due <= read:
            changed(path)

    with pytest.raises(PlanMismatch, match="The table changed after it was opened") as caught:
        publish(table, plan, tmp_path / "r", key=SecretKey.from_seed(1), progress=progress)
    assert "Nothing was published" in caught.value.message
    assert "r" not in {entry.split("/")[0] for entry in listing(tmp_path)}
    assert not list(tmp_path.glob(".r.partial*"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changes_is_not_signed_off(change: str, tmp_path: Path) -> None:
    name, changed = CHANGES[change]
    path = written(name, tmp_path)
    table = scan(path, make_policy(ROLES))
    plan = planned(table)
    changed(path)
    with pytest.raises(PlanMismatch, match="The table changed after it was opened"):
        to_sign(table, plan)


METHODS = {
    "uniform": ("rho1 = 0.2\nrho2 = 0.5", ""),
    "small-domain": ("rho1 = 0.3\nrho2 = 0.7", ""),
    "anatomy": ("l = 2", ""),
    "randomized-response": ("risk_limit = 0.415", ""),
}


@pytest.mark.parametrize("method", METHODS)
def test_counts_alone_tell_where_no_file_does(method: str, tmp_path: Path) -> None:
    """A table in memory has no stamps: rows with other values, and fewer rows, are refused by their counts."""
    requirement, options = METHODS[method]
    policy = make_policy({**ROLES, "age": "drop"}, requirement, method, options=options)
    table = scan(patients(ROWS), policy)
    plan = planned(table)
    one_more = pa.concat_tables([patients(ROWS), patients(1)])
    values = patients(ROWS)["disease"].to_pylist()
    swapped = patients(ROWS).set_column(3, "disease", pa.array(["mumps" if values[0] == "flu" else "flu", *values[1:]]))
    for other in (one_more, patients(ROWS).slice(1), swapped):
        with pytest.raises(PlanMismatch, match="not the one that was planned"):
            publish(scan(other, policy), plan, tmp_path / "r", key=SecretKey.from_seed(1))
        assert listing(tmp_path) == []


def test_a_file_that_changes_within_one_tick_of_its_clock(tmp_path: Path) -> None:
    """Size and times stay, as on a file system with a slow clock: the bytes themselves tell."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a\n1\n")
    opened = stamps.stamps([path])
    assert opened[0].content
    path.write_bytes(b"a\n2\n")
    now = stamps.stamps([path], frozenset([str(path)]))[0]
    with pytest.raises(PlanMismatch, match="was changed"):
        stamps.check_stamps((opened[0]._replace(written=now.written, changed=now.changed),), [path])
    assert not stamps.stamps([path], frozenset())[0].content
