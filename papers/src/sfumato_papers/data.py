"""The papers' tables: Adult itself, real stand-ins for tables that are not available, or generated ones.

Files are looked for in a folder: the one that is named, or that of the environment variable SFUMATO_DATA. Adult is
otherwise downloaded from its public home and checked by sha256. Without folder and network a generated table stands in,
and whatever comes of it says so.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import TableError, UsageError
from sfumato_papers.similar import similar_adult, similar_census, similar_reactions

VARIABLE = "SFUMATO_DATA"
GENERATED = "generated"
"""How the names of tables begin that are not real."""
STANDS_IN = "standing in for"
"""What the names of tables have in them that are not the paper's."""
ADULT, ACS, FAERS = (
    "adult_complete_45222.parquet", "acs2024_census_like_500k.parquet", "faers2022q3_top40_one_per_case.parquet"
)  # fmt: skip
HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
ADULT_FILES = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
TIMEOUT = 30
"""Seconds to wait for the public home of Adult."""


@dataclass(frozen=True)
class Named:
    """A table with a sentence that tells what it is. is_original: whether it is the paper's own."""

    table: Any
    about: str
    is_original: bool


@dataclass(frozen=True)
class Data:
    """Where tables are looked for. folder: with Parquet files. home: of Adult, where None means no network."""

    folder: Path | None = None
    home: str | None = None
    cache: Path | None = None

    @classmethod
    def found(cls, folder: Path | None = None, *, download: bool = True) -> Data:
        """Return the folder that is named, else that of SFUMATO_DATA, else Adult's public home."""
        named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
        if named is not None and not named.is_dir():
            raise UsageError(f"There is no folder {str(named)!r} with data.", f"Name one with --data or {VARIABLE}.")
        if named is not None and not any((named / name).is_file() for name in (ADULT, ACS, FAERS)):
            raise UsageError(
                f"The folder {str(named)!r} holds none of the tables.", f"It should have {ADULT}, {ACS} or {FAERS}."
            )
        return cls(named, HOME if download and named is None else None, cache_folder())

    def adult(self) -> Named:
        """Return Adult's 45,222 complete rows, with a column `split` of "train" (30,162) and "test"."""
        return self._adult

    def adult_train(self) -> Named:
        """Return the 30,162 complete training rows."""
        named = self._adult
        rows = named.table.filter(pa.compute.equal(named.table["split"], "train"))
        return replace(named, table=rows.drop_columns(["split"]), about=f"{named.about}, training part")

    def census(self, rows: int = 500_000) -> Named:
        """Return the first rows of the stand-in for CENSUS, which is not available."""
        path = self._file(ACS)
        if path is None:
            return Named(similar_census(rows), f"{GENERATED}, {rows:,} rows, {STANDS_IN} CENSUS", False)
        table = pq.read_table(path).slice(0, rows)
        return Named(table, f"ACS 2024, {table.num_rows:,} rows, {STANDS_IN} CENSUS", False)

    def reactions(self) -> Named:
        """Return the stand-in for CADR, which is not available: 40 adverse drug reactions."""
        path = self._file(FAERS)
        if path is None:
            return Named(similar_reactions(), f"{GENERATED}, 40 reactions, {STANDS_IN} CADR", False)
        table = pq.read_table(path)
        return Named(table, f"FAERS 2022 Q3, {table.num_rows:,} cases, {STANDS_IN} CADR", False)

    def hierarchy(self, name: str) -> Path | None:
        """Return the file of Adult's generalization hierarchy of a column, if there is one."""
        return self._file(f"hierarchies/adult_hierarchy_{name.replace('_', '-')}.csv")

    @cached_property
    def _adult(self) -> Named:
        path = self._file(ADULT)
        if path is not None:
            table = pq.read_table(path)
            return Named(table, f"Adult, {table.num_rows:,} complete rows", True)
        try:
            texts = {name: self._downloaded(name) for name in ADULT_FILES}
        except OSError:
            table = similar_adult()
            return Named(table, f"{GENERATED}, {table.num_rows:,} rows, {STANDS_IN} Adult", False)
        parts = [complete_rows(texts["adult.data"], "train"), complete_rows(texts["adult.test"], "test")]
        table = pa.concat_tables(parts)
        return Named(table, f"Adult, {table.num_rows:,} complete rows", True)

    def _file(self, name: str) -> Path | None:
        path = None if self.folder is None else self.folder / name
        return path if path is not None and path.is_file() else None

    def _downloaded(self, name: str) -> str:
        """Return a file of Adult, kept once it was downloaded."""
        kept = None if self.cache is None else self.cache / name
        if kept is not None and kept.is_file() and _sha256(kept.read_bytes()) == ADULT_FILES[name]:
            return kept.read_text(encoding="utf-8")
        if self.home is None:
            raise OSError("no network is asked for")
        with urllib.request.urlopen(f"{self.home}/{name}", timeout=TIMEOUT) as answer:
            content = answer.read()
        if _sha256(content) != ADULT_FILES[name]:
            raise TableError(
                f"{self.home}/{name} is not the file that the experiments are for: its sha256 is another.",
                f"Name a folder with the data by --data or {VARIABLE}.",
            )
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(content)
        return str(content, "utf-8")


def complete_rows(text: str, split: str) -> Any:
    """Return the rows without a missing value ("?") of one of Adult's files."""
    lines = csv.reader(io.StringIO(text), skipinitialspace=True)
    rows = [line for line in lines if len(line) == len(ADULT_COLUMNS) and "?" not in line]
    columns = {name: _typed(name, [row[k] for row in rows]) for k, name in enumerate(ADULT_COLUMNS)}
    return pa.table(columns).append_column("split", pa.array([split] * len(rows)).dictionary_encode())


def cache_folder() -> Path:
    """Return where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sfumato"


def _typed(name: str, values: Sequence[str]) -> Any:
    if name in NUMBERS:
        return pa.array([int(value) for value in values])
    return pa.array([value.rstrip(".") for value in values]).dictionary_encode()  # the test part's labels end in "."


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
