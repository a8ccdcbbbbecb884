"""How many modules a reader visits: those of which a function runs in a publication, a question or a check.

    python benchmarks/walks.py            three numbers
    python benchmarks/walks.py --list     and the modules

A release by uniform perturbation; everything is done once before, so that what is only made once does not count. The
walks are told in docs/project/architecture.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import sfumato as sf

TABLE = pa.table({"age": [20 + k % 50 for k in range(3000)], "illness": ["asthma", "flu", "gout"] * 1000})
POLICY = """
[columns.age]
role = "quasi_identifier"
[columns.illness]
role = "sensitive"
domain = ["asthma", "flu", "gout"]
[method]
name = "uniform"
[requirement]
rho1 = 0.4
rho2 = 0.7
"""
QUESTION = "SELECT illness, COUNT(*) FROM release GROUP BY illness"


def visited(work: Callable[[], object]) -> list[str]:
    """Return the modules of the package of which a function is called."""
    seen: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("sfumato") and frame.f_code.co_name != "<module>":
            seen.add(name)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(seen)


def publish(folder: Path) -> None:
    """Scan, count, plan and publish."""
    policy = sf.Policy.parse(POLICY)
    table = sf.scan(TABLE, policy)
    sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), folder)


def main() -> None:
    """Count the modules of three walks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the modules too")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        walks: dict[str, Callable[[str], object]] = {
            "publish": lambda run: publish(folder / run),
            "sql": lambda run: sf.open_release(folder / run).sql(QUESTION),
            "verify": lambda run: sf.open_release(folder / run).verify(),
        }
        for walk in walks.values():
            walk("first")
        for title, walk in walks.items():
            modules = visited(lambda walk=walk: walk("second"))
            print(f"{title:8} {len(modules):3} modules", *(modules if listed else ()), sep="\n  " if listed else " ")


if __name__ == "__main__":
    main()
