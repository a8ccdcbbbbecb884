"""How many modules a reader visits to follow a publication, a question and a check: as few as they are, or fewer.

Whoever adds a module to a walk says so here, or finds that the walk does not need it (`python benchmarks/walks.py
--list`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WALKS = Path(__file__).parents[2] / "benchmarks" / "walks.py"
MOST = {"publish": 43, "sql": 21, "verify": 20}


def test_no_walk_grows_unnoticed() -> None:
    told = subprocess.run([sys.executable, str(WALKS)], capture_output=True, text=True, check=True).stdout
    visited = {line.split()[0]: int(line.split()[1]) for line in told.splitlines()}
    assert visited.keys() == MOST.keys()
    assert {walk: number for walk, number in visited.items() if number > MOST[walk]} == {}
