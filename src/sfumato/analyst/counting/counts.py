"""What is asked of the published rows: sums by keys. Parts of the rows can be asked one by one:

    the answer of all rows = the answers of the parts, merged: sums added, the least of the least, ...

So DuckDB answers it of all files at once, or of some rows at a time, on many machines: see `on_spark`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.release.folder import ReleaseFolder

Merge = Literal["sum", "min", "max"]


@dataclass(frozen=True)
class CountedRelease(ReleaseFolder):
    """A release, and where its rows are counted."""

    spark: Any = field(default=None, repr=False, compare=False)
    """A Spark session; None: on this machine."""


@dataclass(frozen=True)
class Counting:
    """Sums over the rows that a condition selects, by keys; all of them SQL, rebuilt from checked parts.

    Its answer has the columns c0, c1, ... (keys) and s0, s1, ... (sums). `then` is a query of that answer, {counted},
    and of further tables, {in} {braces}; it is plain enough to mean the same to DuckDB and to Spark.
    """

    keys: tuple[str, ...]
    sums: tuple[tuple[str, Merge], ...] = ()  # each with how the answers of parts are merged
    where: str = ""
    then: str = ""

    @property
    def key_names(self) -> list[str]:
        """The columns of the keys."""
        return [f"c{k}" for k in range(len(self.keys))]

    @property
    def merges(self) -> dict[str, Merge]:
        """The columns of the sums, with how they are merged."""
        return {f"s{k}": how for k, (_, how) in enumerate(self.sums)}

    @property
    def counted(self) -> str:
        """The sums by keys, as SQL."""
        columns = [*self.keys, *(sql for sql, _ in self.sums)]
        named = [f"{sql} AS {name}" for sql, name in zip(columns, [*self.key_names, *self.merges], strict=True)]
        where = f" WHERE {self.where}" if self.where else ""
        by = ", ".join(str(k + 1) for k in range(len(self.keys)))  # by place, not name
        return f"SELECT {', '.join(named)} FROM release{where}{f' GROUP BY {by}' if by else ''}"

    def sql(self, tables: Collection[str]) -> str:
        """Return all of it as one query for DuckDB, to which the tables are known by their names."""
        if not self.then:
            return self.counted
        return self.then.format(counted=f"({self.counted})", **{name: name for name in tables})
