"""Columns of a short table are counted one below the other: their figures are those of each column by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from sfumato.engines.embedded.sources import open_source
from sfumato.publisher.survey import counting
from sfumato.publisher.table import no_progress
from sfumato.values.section import InputRule
from tests.constants import set_constants
from tests.engines.test_odd_types import COLUMNS, REFUSED, ROWS

TEXTS = ["7", "007", "1e5", " 5", "-0", "inf", "nan", "NA", " NA", "", None, "9" * 400, "0x1F", "1_0", "٣", ":"]


def odd() -> pa.Table:
    unknown = ("an unknown zone", "whole thousands")  # no database reads them
    found = dict(COLUMNS)
    found |= {name: column for name, (column, _) in REFUSED.items() if name not in unknown}
    found |= {f"{name} twin": column for name, column in COLUMNS.items()}
    found["gaps"] = pa.array([None, 1.5, float("nan")] * (ROWS // 3))
    found["none"] = pa.nulls(ROWS, pa.string())
    found["nothing"] = pa.nulls(ROWS)
    found["texts"] = pa.array([TEXTS[k % len(TEXTS)] for k in range(ROWS)])
    return pa.table(found)


def apart(source: Any) -> tuple[Any, ...]:
    """Count by one query with the figures of all columns, as tables are counted that are long."""
    names = [source.names[k : k + counting.TOGETHER] for k in range(0, len(source.names), counting.TOGETHER)]
    return tuple(column for some in names for column in counting._describe(source, some, no_progress)[1])


@pytest.mark.parametrize("bytes_at_once", [1, 1 << 26])
@pytest.mark.parametrize("batch", [7, 1000])
def test_figures_are_those_of_each_column(bytes_at_once: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=batch)
    set_constants(monkeypatch, "sfumato.publisher.survey", BYTES=bytes_at_once)
    source = open_source(odd(), InputRule())
    rows, columns = counting.describe_columns(source, no_progress)
    assert (rows, columns) == (ROWS, apart(source))


def test_figures_of_a_csv_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({f"c{k}": pa.array(TEXTS).take(pa.array(rng.integers(0, len(TEXTS), 90))) for k in range(40)})
    pc.write_csv(table, tmp_path / "t.csv")
    source = open_source(tmp_path / "t.csv", InputRule())
    assert counting.describe_columns(source, no_progress) == (90, apart(source))


def test_progress_adds_up_to_the_rows() -> None:
    told: list[int] = []
    source = open_source(odd(), InputRule())
    counting.describe_columns(source, told.append)
    assert sum(told) == ROWS
