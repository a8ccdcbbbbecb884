"""Two tables that differ in one record, published by the real thing with fresh secret keys."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.publisher.policy import Policy
from tests.conftest import make_policy
from tests.statistical.whole_release.observing import Features, observe, refused

Format = Literal["parquet", "csv"]


@dataclass(frozen=True)
class Pair:
    """A table in which one record has one of two values; all other records are known."""

    policy: Policy
    gamma: Fraction  # by which the odds of one value against the other may change
    values: Sequence[Any]
    place: int  # of the record
    other: Any  # its value in T2
    kind: Any = None
    stored: Format | None = None  # written to a file and read from it; None: in memory
    other_sex: str | None = None  # its sex in T2, where that is sensitive, too

    def table(self, first: bool) -> pa.Table:
        """Return T1 or T2."""
        values = list(self.values)
        if not first:
            values[self.place] = self.other
        n = len(values)
        sexes = ["F" if k % 3 else "M" for k in range(n)]
        if not first and self.other_sex is not None:
            sexes[self.place] = self.other_sex
        columns = {
            "name": [f"person {k}" for k in range(n)],
            "who": [chr(ord("A") + k) for k in range(n)],
            "sex": sexes,
            "disease": pa.array(values, self.kind),
        }
        return pa.table(columns)

    def truth(self, first: bool) -> dict[str, Any]:
        """Return the true value of each person."""
        table = self.table(first)
        return dict(zip(table.column("who").to_pylist(), table.column("disease").to_pylist(), strict=True))

    def source(self, first: bool, folder: Path) -> Any:
        """Return T1 or T2 as it is given: in memory, or as a file in the folder."""
        table = self.table(first)
        if self.stored is None:
            return table
        path = folder / f"table.{self.stored}"
        if self.stored == "csv":
            with path.open("w", newline="", encoding="utf-8") as file:  # quotes where they are needed, and nowhere else
                lines = csv.writer(file)
                lines.writerow(table.column_names)
                lines.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        else:
            pq.write_table(table, path)
        return path


def policy(
    requirement: str,
    domain: str | None,
    method: str = "uniform",
    options: str = "",
    sensitive: str = "",
    known: str = "other",
) -> Policy:
    """Return the policy of all pairs: `who` tells whose each row is, in a column that is known or just other.

    Both are published alike; where they are quasi-identifiers, more is counted, which takes as long as all the rest.
    """
    roles = {
        "name": "identifier",
        "who": known,
        "sex": known,
        "disease": "sensitive" + (f"; domain = {domain}" if domain else "") + sensitive,
    }
    return make_policy(roles, requirement, method, options=options)


def planned(table: sf.Table) -> Any:
    """Count and plan as the policy asks."""
    return sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)


@dataclass
class Publisher:
    """Publishes T1 or T2 of a pair as a publisher would: count, plan, publish; returns all that is seen."""

    pair: Pair
    format: Format
    more: Callable[[dict[str, Any], Path], None] | None = None  # tells more than it may, of everybody's true value
    verified: bool = False

    def __call__(self, first: bool) -> Features:
        with tempfile.TemporaryDirectory(dir=memory()) as folder:
            to = Path(folder) / "release"
            try:
                table = sf.scan(self.pair.source(first, Path(folder)), self.pair.policy)
                sf.publish(table, planned(table), to, format=self.format)  # with a fresh secret key
                if self.more:
                    self.more(self.pair.truth(first), to)
            except sf.SfumatoError as problem:
                return refused(problem)
            return observe(to, self.verified)


def memory() -> str | None:
    """Return a folder in memory, where there is one: a release is put on the disk file by file."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
