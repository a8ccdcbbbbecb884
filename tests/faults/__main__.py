"""Run suites whose counts the documentation shows: see `tests/faults/recorded.py`."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from itertools import takewhile

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
    print(command, flush=True)
    runs, settings = read(command)
    environment = os.environ | settings | {recorded.ASKED: "1"}
    return subprocess.run(runs, cwd=ROOT, env=environment, check=False).returncode


def read(command: str) -> tuple[list[str], dict[str, str]]:
    """Return a command as this Python runs it, and the settings of the environment that stand before it."""
    words = shlex.split(command)
    settings = list(takewhile(lambda word: "=" in word, words))
    return [sys.executable, "-m", *words[len(settings) :]], dict(word.split("=", 1) for word in settings)


if __name__ == "__main__":
    main()
