"""The allocator while a table is written, and after; and that memory does not grow with the rows."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.embedded.engine import kept_memory


def _pool() -> str:
    return str(pa.default_memory_pool().backend_name)


def _fail(seen: list[str]) -> None:
    with kept_memory():
        seen.append(_pool())
        raise OSError("the disk is full")


def test_the_pool_is_put_back_also_after_an_error() -> None:
    usual, seen = _pool(), list[str]()
    with pytest.raises(OSError, match="full"):
        _fail(seen)
    assert (seen, _pool()) == (["system"], usual)


def test_writers_that_overlap_put_the_pool_back_once_the_last_is_done() -> None:
    usual = _pool()
    first_done, second_in = threading.Event(), threading.Event()

    def second() -> None:
        with kept_memory():
            second_in.set()
            first_done.wait()

    thread = threading.Thread(target=second)
    with kept_memory():
        thread.start()
        second_in.wait()
    assert _pool() == "system"
    first_done.set()
    thread.join()
    assert _pool() == usual


MEGABYTE = 1 << 20
SCHEMA = pa.schema({"age": pa.int64(), "place": pa.string(), "number": pa.float64(), "diagnosis": pa.string()})
PUBLISHING = """
import re, sys
from pathlib import Path
import sfumato as sf
table, folder = Path(sys.argv[1]), Path(sys.argv[2])
known = 'role = "quasi_identifier"' + chr(10) + 'publish_as_is = "made up"'
policy = sf.Policy.parse(f'''
version = 1
[columns.age]
{known}
[columns.place]
{known}
[columns.number]
{known}
[columns.diagnosis]
role = "sensitive"
from_table = true
[method]
name = "uniform"
[requirement]
rho1 = 0.2
rho2 = 0.5
''')
rows = sf.scan(table, policy)
sf.publish(rows, sf.plan(sf.profile(rows), policy.method, policy.requirement), folder)
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def _written(path: Path, rows: int) -> Path:
    """Write a table by row groups of a million rows; about 40 bytes a row in memory."""
    draw, many = np.random.default_rng(1), 1_000_000
    places, diagnoses = (pa.array([f"{word} {k:02d}" for k in range(50)]) for word in ("place", "diagnosis"))
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for _ in range(rows // many):
            drawn = [
                pa.array(draw.integers(0, 100, many)),
                places.take(pa.array(draw.integers(0, 50, many))),
                pa.array(draw.random(many)),
                diagnoses.take(pa.array(draw.integers(0, 9, many))),
            ]
            writer.write_table(pa.Table.from_arrays(drawn, schema=SCHEMA))
    return path


def _peak(table: Path) -> int:
    """Return the most memory, in bytes, of a process that publishes the table in random order."""
    command = [sys.executable, "-c", PUBLISHING, str(table), str(table.with_suffix(".release"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell what a process takes")
def test_a_shuffle_holds_no_more_of_more_rows(tmp_path: Path) -> None:
    """Five million more rows are 200 MB in memory and 100 in packed codes: of neither is more than a part held."""
    small, large = (_peak(_written(tmp_path / f"{rows}.parquet", rows)) for rows in (2_000_000, 7_000_000))
    assert large < small + 80 * MEGABYTE
    assert large < 500 * MEGABYTE
