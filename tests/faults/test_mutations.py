"""Every protection is missed by a test: without it, the test that is named beside it fails."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.faults.mutating import ASKED, MUTATIONS
from tests.faults.recorded import Suite, record

ROOT = Path(__file__).parents[2]
QUICK = ("files reach the disk before the name", "the lock", "mode 0600", "the checksum")
"""Tried in every build: each takes a process of its own."""
MUTATED = Suite(
    "mutations",
    "protections taken out of the code, one at a time: what reaches the disk, locks, modes, links, checksums, counts, "
    "escapes, signatures, keys, plans, stamps of tables, the database's limits, signals, exit codes",
    "a test that is named beside it fails without it",
    "pytest -m slow tests/faults/test_mutations.py",
)


def outcome(mutation: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", MUTATIONS[mutation].test]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text("import tests.faults.mutating\n")  # for processes of the test's own
        environment = os.environ | {ASKED: mutation, "PYTHONPATH": os.pathsep.join([folder, str(ROOT), *sys.path])}
        return subprocess.run(
            [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )


def is_missed(mutation: str) -> bool:
    """Whether the test fails, and by what it asserts: not because it is not found or cannot be loaded."""
    done = outcome(mutation)
    return done.returncode == 1 and " failed" in done.stdout and " error" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_is_of_lines_that_are_there(mutation: str) -> None:
    asked = MUTATIONS[mutation]
    found = importlib.util.find_spec(asked.module)
    assert found is not None
    assert found.origin is not None
    assert asked.lines in Path(found.origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("mutation", QUICK)
def test_a_protection_is_missed(mutation: str) -> None:
    assert is_missed(mutation)


@pytest.mark.slow
def test_every_protection_is_missed() -> None:
    began = time.monotonic()
    kept = [mutation for mutation in MUTATIONS if not is_missed(mutation)]
    record(MUTATED, len(MUTATIONS), len(kept), time.monotonic() - began)
    assert kept == []
