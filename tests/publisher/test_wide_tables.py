"""What a policy of `init` takes grows with the columns as they do: their square took six minutes for 10,000 of them."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from sfumato.engines.base import Source
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.engines.embedded.sources import open_source
from sfumato.publisher.proposal import propose
from tests.constants import set_constants

ROWS = 60
FEW, MANY = 100, 400
FIELDS = "fields of the lines that are read"


class Name(str):
    """A name that is compared by a call: a list in which names are searched would compare them unseen."""

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def wide(columns: int) -> pa.Table:
    """Return a table of numbers, codes, words and a secret, the same kinds over and over."""
    draw = random.Random(1)
    kinds = {
        "x": [str(draw.randrange(50)) for _ in range(ROWS)],
        "code": [f"00{k % 9}" for k in range(ROWS)],
        "word": [draw.choice(["red", "green", "blue"]) for _ in range(ROWS)],
        "mixed": [draw.choice(["7", "seven", "?"]) for _ in range(ROWS)],
    }
    names = [f"{kind}{k}" for k in range(columns // len(kinds)) for kind in kinds]
    secret = [draw.choice(["flu", "gout", "hiv"]) for _ in range(ROWS)]
    return pa.table({"diagnosis": secret} | {name: kinds[name.rstrip("0123456789")] for name in names[1:]})


@contextmanager
def counted(calls: Counter[str]) -> Iterator[None]:
    """Count the calls of every function, of Python's own too, in this thread and in those that begin."""

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            calls[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] += 1
        elif event == "c_call":
            calls[getattr(function, "__qualname__", str(function))] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def work(columns: int, opened: Callable[[pa.Table], Source], patch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often each function is called to propose a policy, and how many fields a CSV reader splits."""
    source = opened(wide(columns))
    source.names = [Name(name) for name in source.names]
    calls: Counter[str] = Counter()
    read = CsvSource.batches

    def batches(self: CsvSource, wanted: Any) -> Any:
        calls[FIELDS] += len(self.names)  # whichever are wanted
        return read(self, wanted)

    with patch.context() as noted, counted(calls):
        noted.setattr(CsvSource, "batches", batches)
        propose(source)
    return calls


@pytest.mark.parametrize("kind", ["CSV", "Arrow"])
def test_what_init_does_grows_with_the_columns(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many columns are four times as many calls of each function, and never five times."""
    set_constants(monkeypatch, "sfumato.engines", THREADS=1)  # what a thread of the database calls is not counted

    def opened(table: pa.Table) -> Source:
        if kind == "Arrow":
            return open_source(table)
        path = tmp_path / f"{table.num_columns}.csv"
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
        return open_source(path)

    work(FEW, opened, monkeypatch)  # what is loaded and kept is not counted
    few, many = (work(columns, opened, monkeypatch) for columns in (FEW, MANY))
    assert (few[FIELDS] > 0) == (kind == "CSV")
    assert {name: (few[name], calls) for name, calls in many.items() if calls > max(5 * few[name], MANY)} == {}
