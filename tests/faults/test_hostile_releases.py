"""Releases from anybody: no link is followed, no number makes memory of itself, no question runs for minutes."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst.release import Release, open_release
from sfumato.errors import ReleaseError, UsageError
from sfumato.release import folder as reading
from tests.engines.tools import patients, released


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return released(patients(), folder=tmp_path / "r")


@pytest.mark.parametrize("name", ["manifest.json", "README.md", "data.parquet"])
def test_links_are_not_followed(name: str, release: Release, tmp_path: Path) -> None:
    os.rename(release.folder / name, tmp_path / "elsewhere")
    (release.folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReleaseError, match="is a link to another file"):
        open_release(release.folder)


def test_a_link_is_refused_before_it_is_read(release: Release, tmp_path: Path) -> None:
    """A pipe would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    (release.folder / "manifest.json").unlink()
    (release.folder / "manifest.json").symlink_to(tmp_path / "pipe")
    with pytest.raises(ReleaseError, match="is a link to another file"):
        open_release(release.folder)


def test_a_name_that_no_folder_can_hold(release: Release) -> None:
    file = release.folder / "manifest.json"
    file.write_text(file.read_text().replace('"data.parquet"', f'"{"x" * 300}"'))
    with pytest.raises(ReleaseError, match="a file that no folder can hold"):
        open_release(release.folder)


@pytest.mark.parametrize("size", [1 << 40, (1 << 29) + 1])
def test_a_manifest_larger_than_any_is_not_read(size: int, release: Release) -> None:
    os.truncate(release.folder / "manifest.json", size)
    with pytest.raises(ReleaseError, match="more than 536,870,912 bytes"):
        open_release(release.folder)


def test_a_readme_larger_than_any_is_not_read(release: Release) -> None:
    os.truncate(release.folder / "README.md", 1 << 40)
    failed = [check for check in release.verify().checks if check.status == "fails" and "README" in check.name]
    assert "more than 67,108,864 bytes" in failed[0].detail


def changed(release: Release, **matrix: Any) -> Release:
    file = release.folder / "manifest.json"
    raw = json.loads(file.read_text())
    raw["mechanisms"][0]["sub_tables"][0]["noise"].update(matrix)
    file.write_text(json.dumps(raw))
    return open_release(release.folder)


@pytest.mark.parametrize("size", [10**9, 10**15, 3, 1])
def test_a_matrix_is_not_made_larger_than_its_domain(size: int, release: Release) -> None:
    """A billion of noise weights took 7.5 GB."""
    hostile = changed(release, size=size)
    assert not hostile.verify().holds
    with pytest.raises((UsageError, ValueError), match="columns for 4 values"):
        hostile.count(by="disease")


def test_a_domain_is_not_made_of_more_combinations_than_are_planned(release: Release) -> None:
    """Two short lists: their 16 million combinations took 900 MB before anything else was found to be wrong."""
    file = release.folder / "manifest.json"
    raw = json.loads(file.read_text())
    values = [f"v{k}" for k in range(4000)]
    raw["mechanisms"][0]["domain"] = [{"name": name, "values": values} for name in ("disease", "age")]
    raw["mechanisms"][0]["sub_tables"][0]["noise"]["size"] = len(values) ** 2
    file.write_text(json.dumps(raw))
    hostile = open_release(release.folder)
    assert not hostile.verify().holds
    with pytest.raises(ReleaseError, match="a domain of 16,000,000 values, more than 10,000,000"):
        hostile.count(by="disease")


def test_databases_have_a_limit_of_memory(release: Release) -> None:
    with reading.connection() as database:
        (limit,) = database.execute("SELECT current_setting('memory_limit')").fetchone()
    assert limit == "3.7 GiB"


@pytest.mark.parametrize("joined", ["OR", "AND"])
def test_questions_with_thousands_of_terms_are_refused(joined: str, release: Release) -> None:
    condition = f" {joined} ".join(f"age <> {k}" for k in range(1000))
    with pytest.raises(UsageError, match=r"terms, more than 200|nested too deeply"):
        release.count(where=condition)
    with pytest.raises(UsageError, match=r"terms, more than 200|nested too deeply"):
        release.sql(f"SELECT COUNT(*) FROM release WHERE {condition}")
    listed = ", ".join(map(str, range(0, 600, 2)))
    assert release.count(where=f"age IN ({listed})").value.tolist() == [150]


# --- processes --------------------------------------------------------------------------------------------------------


def _ask(folder: str, found: Any) -> None:
    found.put(open_release(folder).count(where="age < 10").value.tolist())


FORKED = """
import os, sys
opened = {}
os.register_at_fork(before=lambda: reading._databases.update(opened))  # before the others: so it runs after them
from sfumato.analyst.release import open_release
from sfumato.release import folder as reading
open_release(sys.argv[1]).count(where="age < 10")
opened.update(reading._databases)
assert opened
child = os.fork()
if not child:
    assert not reading._databases
    print(open_release(sys.argv[1]).count(where="age < 10").value.tolist())
    sys.exit()
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_child_leaves_open_databases_to_its_parent(release: Release) -> None:
    """One that another thread opened between the moment when all are closed and the fork."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(release.folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout) == (0, "[10.0]\n"), done.stderr


def test_children_answer_while_other_threads_ask(release: Release) -> None:
    folder, stop = str(release.folder), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            open_release(folder).count(where="age < 10")

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        context = multiprocessing.get_context("fork")
        for _ in range(5):
            found = context.SimpleQueue()
            child = context.Process(target=_ask, args=(folder, found))
            child.start()
            child.join(60)
            assert child.exitcode == 0
            assert found.get() == [10]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
