"""A new user's desk: a small table, its policy, a plan, a release; and the command line as it is typed there."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sfumato.cli.main import main

DIAGNOSES = ("flu", "flu", "flu", "asthma", "asthma", "diabetes", "gout", "migraine")
REGIONS = ("North", "South", "West")
ROWS = 240
HEADER = "record,age,sex,region,weight,diagnosis"

POLICY = """\
version = 1
[columns.record]
role = "identifier"
[columns.age]
role = "quasi_identifier"
[columns.sex]
role = "quasi_identifier"
[columns.region]
role = "quasi_identifier"
[columns.weight]
role = "other"
[columns.diagnosis]
role = "sensitive"
[method]
name = "uniform"
[requirement]
rho1 = 0.2
rho2 = 0.5
"""


def patients(rows: int = ROWS) -> list[str]:
    """Return the lines of the table: every column varies by itself, and the row number tells nothing."""
    return [HEADER] + [
        f"R{k:04},{20 + k * 7 % 50},{'FM'[k * 5 // 3 % 2]},{REGIONS[k * 11 // 7 % 3]},{1 + k % 4},"
        f"{DIAGNOSES[k * 13 // 5 % 8]}"
        for k in range(rows)
    ]


@dataclass(frozen=True)
class Printed:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


def run(command: str) -> Printed:
    """Run a command line in the current folder, as a terminal would, without a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _arguments(["sfumato", *shlex.split(command)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
    return Printed(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _arguments(given: list[str]) -> Iterator[None]:
    """Put the arguments in the place of this process's own; `main` also takes over the signals."""
    mine, handlers = sys.argv, {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)}
    sys.argv = given
    try:
        yield
    finally:
        sys.argv = mine
        for name, handler in handlers.items():
            signal.signal(name, handler)


def make_desk(folder: Path) -> Path:
    """Fill a folder with the table, the policy, a plan and a release that was drawn from a seed."""
    folder.mkdir()
    (folder / "patients.csv").write_text("\n".join(patients()) + "\n", encoding="utf-8")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    with at(folder):
        for command in (
            "plan patients.csv policy.toml -o plan.json",
            "publish patients.csv policy.toml --seed 1 -o release",
            "key hospital.key",
        ):
            made = run(command)
            assert made.code == 0, made.err
    return folder


@contextlib.contextmanager
def fresh(desk: Path, folder: Path) -> Iterator[Path]:
    """Give a copy of the desk as the current folder, and clear it away."""
    shutil.copytree(desk, folder)
    try:
        with at(folder):
            yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def at(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
