"""Which columns of text hold formulas, of the rows as they are published: a CSV file may be opened by a spreadsheet.

What is found is told by the published values alone. A column is looked into until its first formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.show.formulas import FORMULA, SIGNED_NUMBER
from sfumato.values.arrow import is_text

NOTED = b"sfumato.formulas"
"""Under which a field of an Arrow schema tells that its text holds formulas; no file has it."""
OF_RUN = r"(?:^|,)(?:[=@\t\r\n＝＠]|[+\-＋－][0-9.]*[^0-9.,])"
"""Fits every run of columns with a formula, and some with numbers such as -1e5."""

FIRST = "=@\t\r\n+-＝".encode()
"""The first bytes of formulas; those of the wide signs are the same."""
IS_FIRST = np.isin(np.arange(256), list(FIRST))
MARKS = (b"=", b"@", b"\t", b"+", "＝".encode()[:1], b",-")
"""One of them is in every run with a formula, but for one that begins with a minus. Looking for them takes a fifth of
the time that a regular expression does."""


class FormulaColumns:
    """Watches rows on their way to a file. `wide` has the runs of columns that are copied as one, without quotes."""

    def __init__(self, wide: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._wide = wide or {}
        self.names: set[str] = set()

    def watched(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Give the batches as they are, and look at each."""
        for rows in batches:
            self.see(rows)
            yield rows

    def see(self, rows: Any) -> None:
        """Take note of the columns that hold a formula."""
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            run = self._wide.get(name, (name,))
            if all(part in self.names for part in run) or not is_text(_kind(column)):
                continue
            if len(run) > 1:
                self._see_run(run, column)
            elif has_formula(column):
                self.names.add(name)

    def _see_run(self, run: tuple[str, ...], texts: Any) -> None:
        if not _begins_like_one(texts) and not any(mark in _bytes(texts) for mark in MARKS):
            return
        texts = texts.filter(pc.match_substring_regex(texts, OF_RUN))
        if len(texts):
            fields = pc.split_pattern(texts, ",").flatten()
            held = zip(run, (fields[place :: len(run)] for place in range(len(run))), strict=True)
            self.names.update(name for name, column in held if has_formula(column))

    def noted(self, schema: Any) -> Any:
        """Return the schema of the file with what its columns hold, for `holds_formulas`."""
        fields = [f.with_metadata({**(f.metadata or {}), NOTED: b""}) if f.name in self.names else f for f in schema]
        return pa.schema(fields, metadata=schema.metadata)


def holds_formulas(field: Any) -> bool:
    """Whether text of a column of a noted schema holds formulas."""
    return NOTED in (field.metadata or {})


def has_formula(column: Any) -> bool:
    """Whether a text of a column is a formula."""
    if pa.types.is_dictionary(column.type):  # which may have values that no row has
        return has_formula(column.dictionary) and has_formula(column.unique().dictionary_decode())
    texts = column.cast(pa.large_string())
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    if not any(map(_begins_like_one, chunks)):
        return False
    suspects = texts.filter(pc.match_substring_regex(texts, FORMULA))
    return len(suspects) > 0 and not pc.all(pc.match_substring_regex(suspects, SIGNED_NUMBER)).as_py()


def _begins_like_one(texts: Any) -> bool:
    """Whether some text begins with a letter that formulas begin with. A missing one counts as the next: no harm."""
    if not len(texts):
        return False
    starts, letters = _buffers(texts)
    starts = starts[:-1][starts[:-1] < letters.size]
    return bool(IS_FIRST[letters[starts]].any())


def _bytes(texts: Any) -> bytes:
    starts, letters = _buffers(texts)
    return letters[starts[0] : starts[-1]].tobytes()


def _buffers(texts: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return where texts begin, the end of the last one too, and their letters."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, letters = texts.buffers()
    starts = np.frombuffer(offsets, dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    return starts, np.frombuffer(letters or b"", dtype=np.uint8)


def _kind(column: Any) -> Any:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type
