"""Releases of many columns: verified by few queries, in runs of columns, with the same outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.release import folder as reading
from sfumato.release.verify.order import thinned
from tests.constants import set_constants

OTHERS = 30


def released(folder: Path, seed: int = 1, **more: Any) -> sf.Release:
    rng = np.random.default_rng(seed)
    secret = rng.choice(list("abc"), 2_000)
    columns = {"secret": secret} | {f"c{k}": rng.integers(0, 5, secret.size) for k in range(OTHERS)}
    columns |= {name: secret if value is None else value for name, value in more.items()}
    other = 'role = "other"\npublish_as_is = "made up"'
    roles = {name: 'role = "sensitive"\ndomain = ["a", "b", "c"]' if name == "secret" else other for name in columns}
    stated = "".join(f"[columns.{name}]\n{role}\n" for name, role in roles.items())
    policy = sf.Policy.parse(f'{stated}[method]\nname = "uniform"\n[requirement]\nrho1 = 0.3\nrho2 = 0.6')
    table = sf.scan(pa.table(columns), policy)
    return sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), folder / "release")


def told(release: sf.Release) -> dict[str, tuple[str, str]]:
    return {check.name: (check.status, check.detail) for check in release.verify().checks}


def test_runs_of_columns_hold_each_once() -> None:
    names = [str(k) for k in range(1_000)]
    for rows in (0, 1, 1_000, 1 << 21, 1 << 40):
        runs = list(reading.runs_of_columns(names, rows))
        assert [name for run in runs for name in run] == names
        assert all(len(run) == 1 or len(run) * rows <= reading.CELLS_AT_ONCE for run in runs)


@pytest.mark.parametrize("at_once", [1, 7, 256])
def test_a_release_is_checked_alike_in_runs_of_any_size(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(tmp_path)
    whole = told(release)
    set_constants(monkeypatch, "sfumato.release", COLUMNS_AT_ONCE=at_once)
    assert told(release) == whole
    assert whole["copies"][0] == whole["random order"][0] == "holds"


def test_few_queries_read_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = released(tmp_path)
    opened: list[int] = []
    plain = reading.connection

    def counting(*args: Any, **options: Any) -> Any:
        opened.append(1)
        return plain(*args, **options)

    monkeypatch.setattr(reading, "connection", counting)
    assert release.verify().holds
    assert len(opened) < OTHERS  # one for each column, or more, before


@pytest.mark.parametrize("rows", [101, 104, 200, 201, 1_003])
def test_a_long_release_is_looked_at_in_stretches(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.release.verify", MOST_ROWS=100, STRETCH=8)
    kept = thinned(rows)
    assert kept is not None
    assert kept.tolist() == [row // 8 % -(-rows // 100) == 0 for row in range(rows)]
