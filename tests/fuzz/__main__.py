"""Try changed files on the commands: `python -m tests.fuzz --cases 100000 --seed 7`, and one again by its number.

About 25 cases take a second of the processor. A run of all targets is recorded if that is asked for (SFUMATO_RECORD).

A finding is mended at its root, and kept: `--keep NAME` with `--case` writes its file to tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.recorded import record
from tests.fuzz import seeds
from tests.fuzz.running import SUITE, cases, run
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import _keep_unforeseen, attempt, drawn

CORPUS = Path(__file__).with_name("corpus")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="Begin no case after so many.")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--case", type=int, help="Only this one of the target, with all that it tells.")
    parser.add_argument("--keep", metavar="NAME", help="Keep the case in the corpus.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=Path, help="A folder with seeds that was made before; made if it is not there.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = given.seeds or Path(folder) / "seeds"
        if not made.exists():
            seeds.make(made)
        if given.case is not None:
            return _one(given, made)
        began = time.monotonic()
        named = cases(given.cases, given.seed, given.target or sorted(TARGETS))
        until = began + 60 * given.minutes
        done, found = run(made, named, given.workers, lambda finding: print(finding, "\n", flush=True), until)
    if not given.target:
        record(SUITE, done, len(found), time.monotonic() - began)
    print(f"{done:,} cases, {len(found)} findings, {time.monotonic() - began:.0f} s")
    return int(bool(found))


def _one(given: argparse.Namespace, made: Path) -> int:
    (target,) = given.target
    label, content, draw = drawn(target, given.case, given.seed, made)
    if given.keep:
        file = CORPUS / target / f"{label}--{given.keep}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    _keep_unforeseen()
    found = attempt(target, label, content, draw, made)
    print(f"{label}: {content[:2000]!r}", *found or ["nothing is wrong with it"], sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
