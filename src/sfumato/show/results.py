"""What every result offers: Arrow, pandas and polars, a table in a notebook, and a picture where it has figures.

A result gives its rows (`to_arrow`) and its text (`__repr__`), which begins with a line that says what it is; the rest
is here. A private result tells sizes and nothing else unless it is asked: notebooks are saved, mailed and committed.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.show.pictures import Picture

SHOWN = 50  # rows that a notebook shows


class Result(ABC):
    """Rows that other programs take: any that reads Arrow's C stream (pandas, polars, DuckDB, pyarrow)."""

    @abstractmethod
    def to_arrow(self) -> Any:
        """Return the rows as an Arrow table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        stream: object = self.to_arrow().__arrow_c_stream__(requested_schema)
        return stream

    def to_pandas(self) -> Any:
        """Return the rows as a pandas table; pandas must be installed."""
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars table; polars must be installed."""
        return _needed("polars").from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        return _html_table(_first_line(self), self._shown())

    def _shown(self) -> Any:
        """Return what a notebook shows, as an Arrow table."""
        return self.to_arrow()


class Drawn(Result):
    @property
    def _figures(self) -> tuple[str, ...]:
        """The columns that are drawn; those before the first of them say what they are of."""
        return ()

    def plot(self, file: str | Path | None = None, title: str = "") -> Picture:
        """Return a picture of the figures; with a file (.svg, .png, .pdf, .html) it is written there, too."""
        from sfumato.show.pictures import Picture

        picture = Picture(self._drawing(title))
        if file is not None:
            picture.save(file)
        return picture

    def _drawing(self, title: str) -> dict[str, Any]:
        from sfumato.show.plots import points

        table = self.to_arrow()
        by = table.column_names[: table.column_names.index(self._figures[0])]
        return points(table, by, self._figures, title or _first_line(self))


class Private:
    """Tells no more than its sizes by itself; put before `Result`, it keeps rows out of notebooks."""

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(_first_line(self))}</p>"


class Part(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def values(self) -> Sequence[Any]: ...


def shape_of(parts: Iterable[Part]) -> str:
    """Return columns with the numbers of their values: "sex (2) x diagnosis (12)"."""
    return " x ".join(f"{part.name} ({len(part.values):,})" for part in parts)


def columns_table(keys: Iterable[tuple[str, Any]], figures: Mapping[str, Any]) -> Any:
    """Return an Arrow table of a result's groups and figures; a group's column with a figure's name gets another."""
    import pyarrow as pa

    named = {f"{name}_" if name in figures else name: column for name, column in keys}
    columns = {name: values_array(column) if isinstance(column, list) else column for name, column in named.items()}
    return pa.table(columns | dict(figures))


def values_array(values: Sequence[Any]) -> Any:
    """Return values as an Arrow array; integers of 64 bits without a sign keep all of these."""
    import pyarrow as pa

    large = any(isinstance(v, int) and v >= 2**63 for v in values)
    return pa.array(values, type=pa.uint64() if large else None)


def _needed(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise UsageError(
            f"to_{package}() needs the package {package}.",
            f"Install it: pip install {package}. to_arrow() gives the same rows without it.",
        ) from None


def _first_line(result: object) -> str:
    return repr(result).partition("\n")[0]


def _html_table(caption: str, table: Any) -> str:
    """Return an HTML table of the first rows; no value of it can become markup."""
    from sfumato.show.files import rows_of

    rows = [f"<tr>{''.join(map(_cell, row.values()))}</tr>" for row in rows_of(table.slice(0, SHOWN))]
    more = table.num_rows - SHOWN
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{''.join(f'<th>{html.escape(name)}</th>' for name in table.column_names)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
        + (f"<p>... and {more:,} more rows: .to_arrow() gives all.</p>" if more > 0 else "")
    )


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:,.5g}" if isinstance(value, float) else str(value)
    return f"<td>{html.escape(text)}</td>"
