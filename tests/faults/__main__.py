"""Run suites whose counts the documentation shows: see `tests/faults/recorded.py`."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys

from docs.generate import ROOT, write
from tests.faults import recorded


def main() -> None:
    """Do what the command line asks for; exit with 1 if a suite fails."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.faults", description=recorded.__doc__, formatter_class=as_written)
    known = {seen.suite.name: seen.suite.command for seen in recorded.records()}
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    asked = parser.parse_args().suites
    for name in asked:
        if name not in known:
            parser.error(f"there is no record of {name!r}; there is one of {', '.join(known)}")
    if not asked:
        print("\n".join(f"{name}: {command}" for name, command in known.items()))
    ended = [_run(known[name]) for name in asked]
    if asked:
        print("\n".join(write()))
    sys.exit(1 if any(ended) else 0)


def _run(command: str) -> int:
    program, *arguments = shlex.split(command)
    print(command, flush=True)
    runs = [sys.executable, "-m", program, *arguments]
    return subprocess.run(runs, cwd=ROOT, env=os.environ | {recorded.ASKED: "1"}, check=False).returncode


if __name__ == "__main__":
    main()
