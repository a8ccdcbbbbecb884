"""The net: what a seeded release of every method contains and says, as hashes that a change of the code must not move.

    python -m tests.golden                     write tests/golden/hashes.json anew, and say which hashes changed
    python -m tests.golden CASE ...            the same of these cases only
    python -m tests.golden --show CASE PART    print the text behind a hash, as the code of today makes it
    python -m tests.golden --list              print the names of cases and parts

To see what changed, print the text with the code before and after, and compare:

    git stash; python -m tests.golden --show uniform parquet/manifest > /tmp/before; git stash pop
    python -m tests.golden --show uniform parquet/manifest | diff /tmp/before -

A hash may change only for a reason, which goes into tests/golden/changes.md. Cases on Spark are made anew where
SFUMATO_SPARK is set, and keep their hashes elsewhere.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.golden.cases import CASES, ON_SPARK
from tests.golden.hashes import differing, digests, load, save
from tests.golden.texts import Texts, spark_session, texts, texts_on_spark


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument("--show", nargs=2, metavar=("CASE", "PART"))
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    for name in (*asked.cases, *(asked.show or ())[:1]):
        if name not in CASES and name not in ON_SPARK:
            parser.error(f"there is no case {name!r}: --list has their names")
    if asked.list:
        for name, parts in load().items():
            print(f"{name}\n    {'; '.join(parts)}")
    elif asked.show:
        case, part = asked.show
        print(dict(_made([case]))[case][part])
    else:
        _write(asked.cases or [*CASES, *(ON_SPARK if os.environ.get("SFUMATO_SPARK") else ())])


def _write(names: Sequence[str]) -> None:
    before = load()
    made = {name: digests(found) for name, found in _made(names)}
    after = {name: made.get(name) or before[name] for name in (*CASES, *ON_SPARK) if name in made or name in before}
    save(after)
    for name in before | after:
        for part in differing(before.get(name, {}), after.get(name, {})):
            print(f"changed: {name}: {part}")
    print(f"{len(made)} cases, {sum(map(len, made.values()))} hashes")


def _made(names: Sequence[str]) -> Iterator[tuple[str, Texts]]:
    """Publish cases, and give the texts of each."""
    with ExitStack() as stack:
        spark = stack.enter_context(spark_session()) if not ON_SPARK.keys().isdisjoint(names) else None
        for name in names:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            yield name, texts(CASES[name], folder) if name in CASES else texts_on_spark(ON_SPARK[name], folder, spark)


if __name__ == "__main__":
    main()
