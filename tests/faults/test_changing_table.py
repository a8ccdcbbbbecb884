"""What is published is what was counted and planned: a table that changes meanwhile is not published."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from sfumato.engines import stamps
from sfumato.errors import PlanMismatch
from sfumato.publisher.publish import publish, to_sign
from sfumato.publisher.table import Table, scan
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import constant, set_constants
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


def opened(path: Path, age: str, patch: pytest.MonkeyPatch) -> Table:
    """Open a table whose files are told by their bytes too (fresh), or by the system's notes of them alone (aged)."""
    if age == "fresh":
        set_constants(patch, "sfumato.engines", TICK=10**18)  # whatever the machine is busy with
    else:
        wait_a_tick()
    table = scan(path, make_policy(ROLES))
    assert {bool(stamp.content) for stamp in table.source._opened} == {age == "fresh"}
    return table


def wait_a_tick() -> None:
    time.sleep(1.5 * constant("sfumato.engines", "TICK") / 10**9)


@pytest.mark.parametrize("age", ["fresh", "aged"])
@pytest.mark.parametrize("when", ["planned", "half published", "all read"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changes_is_not_published(
    change: str, when: str, age: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=100, STRETCH=1 << 12)
    name, changed = CHANGES[change]
    path = written(name, tmp_path)
    table = opened(path, age, monkeypatch)
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


@pytest.mark.parametrize("age", ["fresh", "aged"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changes_is_not_signed_off(
    change: str, age: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, changed = CHANGES[change]
    path = written(name, tmp_path)
    table = opened(path, age, monkeypatch)
    plan = planned(table)
    changed(path)
    with pytest.raises(PlanMismatch, match="The table changed after it was opened"):
        to_sign(table, plan)


# --- what each part of a stamp tells alone ----------------------------------------------------------------------------
#
# The time of the last change (ctime) alone: other_ages, aged. It moves with every write, cut and change of the time of
# the last write, so that size and mtime tell nothing besides where the system keeps it; they do where it does not.


def test_another_file_of_the_same_times_is_told_by_its_number(tmp_path: Path) -> None:
    """Its folder was renamed into the place of the other, which leaves what is noted of the file as it was."""
    paths = [written("t.csv", folder(tmp_path / name)) for name in ("now", "next")]
    other_ages(paths[1])
    same_times(*paths)
    wait_a_tick()
    stamped = stamps.stamps([paths[0]])
    (tmp_path / "now").rename(tmp_path / "before")
    (tmp_path / "next").rename(tmp_path / "now")
    (now,) = stamps.stamps([paths[0]])
    assert stamped[0] == now._replace(number=stamped[0].number)
    with pytest.raises(PlanMismatch, match="was changed"):
        stamps.check_stamps(stamped, [paths[0]])


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def same_times(*paths: Path) -> None:
    """Set the times of files at once, again until the system's clock did not tick in between."""
    for _ in range(1000):
        for path in paths:
            os.utime(path, ns=(10**18, 10**18))
        if len({os.stat(path).st_ctime_ns for path in paths}) == 1:
            return
    pytest.skip("the clock of this file system ticks between any two calls")


def appended_unseen(path: Path) -> None:
    """Append rows and set the time of the last write back."""
    found = os.stat(path)
    lengthen(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize(("part", "change"), [("size", appended_unseen), ("written", other_values)])
def test_size_and_mtime_tell_where_no_time_of_changes_is_kept(
    part: str, change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, whose ctime is when a file was made."""
    kept = ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    stat = os.stat
    noted = SimpleNamespace(stat=lambda path: SimpleNamespace(**{name: getattr(stat(path), name) for name in kept}))
    monkeypatch.setattr(stamps, "os", noted)
    path = written("t.csv", tmp_path)
    wait_a_tick()
    stamped = stamps.stamps([path])
    change(path)
    (now,) = stamps.stamps([path], frozenset())
    assert stamped[0] == now._replace(**{part: getattr(stamped[0], part)})
    with pytest.raises(PlanMismatch, match="was changed"):
        stamps.check_stamps(stamped, [path])


# --- counts -----------------------------------------------------------------------------------------------------------


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
