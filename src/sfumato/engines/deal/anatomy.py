"""Anatomy's two tables: the published columns with the number of each row's group, and the values of each group.

    values of the rows --> DealtRows --> group of each row --> QI table          (age, sex, ..., group)
    counts             --> Groups    --> compositions      --> sensitive table   (group, disease, count)

Groups come in ascending order, their rows in random order: the place of a row in the file tells its group and nothing
else. Rows are scattered by group range to one temporary file, and every range is sorted by (group, fresh word). What is
spilled holds no sensitive value, but other originals: the file has mode 0600 and no name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import Source, ahead
from sfumato.engines.deal.buckets import (
    Composition,
    DealtRows,
    GivenRows,
    GroupNumbers,
    Groups,
    RowGroups,
    compositions,
    random_order,
)
from sfumato.engines.embedded.shuffle import Order, Spill, SpillFile, stable_order
from sfumato.engines.rows.encoding import Encoder, SensitiveRows, changed_table
from sfumato.engines.rows.mapping import WORD, Beside, decoded
from sfumato.values.arrays import CodeArray, IntArray, WordArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD

Types = Mapping[str, Any]
"""The integer types of sensitive columns: `mapping.integer_types`."""

ValuesAndWords = tuple[CodeArray, WordArray]
"""Sensitive value and word of some rows."""

SCATTERED_ROWS = 1 << 17
"""Rows that are dealt to parts at a time: few, for the memory that they take besides the batch."""


class TwoTables(NamedTuple):
    """Batches of the QI table and of the sensitive table, both by ascending group."""

    rows: Iterator[Any]
    values: Iterator[Any]


def anatomized(
    batches: Iterable[Any],
    values: Iterable[ValuesAndWords],
    domain: SensitiveDomain,
    counts: IntArray,
    withheld: IntArray,
    groups: int,
    types: Types,
    key: SecretKey,
    folder: Path,
) -> TwoTables:
    """Deal the rows to groups, none of which gets a value twice, and give both tables.

    batches: the published columns; those of the domain are left out, and so are the words (WORD). values: value and
    word of the same rows in the same order, in batches of any size; they are read first. counts: the rows of each
    value. withheld: how many of them are left out, which ones by chance.
    """
    deal = Groups.drawn(counts, withheld, groups, key)
    rows = _dealt(separated(batches, domain), values, deal, key, folder)
    return TwoTables(rows, in_arrow(deal.compositions(), domain, types))


def regrouped(
    batches: Iterable[Any],
    codes: npt.NDArray[np.integer],
    group_of_row: npt.NDArray[np.integer],
    domain: SensitiveDomain,
    types: Types,
    key: SecretKey,
    folder: Path,
) -> TwoTables:
    """Give both tables for groups that are known: that of each row, from 0, or `WITHHELD`."""
    number, published = int(group_of_row.max()) + 1, int(np.count_nonzero(group_of_row != WITHHELD))
    given = GivenRows(codes, group_of_row)
    rows = _gathered(separated(batches, domain), given, number, published, key, folder)
    return TwoTables(rows, in_arrow(compositions(group_of_row, codes), domain, types))


def sensitive_values(
    source: Source, schema: Schema, domain: SensitiveDomain, key: SecretKey
) -> Iterator[ValuesAndWords]:
    """Give value and word of all rows that are published."""
    values = SensitiveRows(schema, domain)
    return (values.with_words(batch, key, Step.ANATOMY) for batch in source.batches(values.columns))


def dealing_word(key: SecretKey) -> Beside:
    """Return what gives rows the words that they are dealt by."""
    return lambda batch: {WORD: batch.words(key, Step.ANATOMY)}


def for_once(key: SecretKey) -> SecretKey:
    """Return the key, or a fresh one for a key that is kept: no order or group may come back in a later release."""
    return SecretKey.fresh() if key.kept else key


def separated(batches: Iterable[Any], domain: SensitiveDomain) -> Iterator[tuple[CodeArray, WordArray, Any]]:
    """Give the sensitive values of each batch, as codes, its words, and its other columns."""
    encoders = [Encoder(Attribute(part.name, "sensitive", "category"), part) for part in domain.parts]
    for batch in batches:
        codes = domain.join(encoder.encode(batch.column(encoder.attribute.name), 0) for encoder in encoders)
        if any(encoder.refused for encoder in encoders):
            raise changed_table()
        yield codes, as_numpy(batch.column(WORD)), batch.drop_columns([*domain.names, WORD])
        del batch


def in_arrow(lines: Iterable[Composition], domain: SensitiveDomain, types: Types) -> Iterator[Any]:
    """Give the lines of the sensitive table with values instead of codes."""
    names = [GROUP, *domain.names, COUNT]
    for number, codes, counts in lines:
        parts = zip(domain.parts, domain.split(codes), strict=True)
        values = [decoded(part, column, types.get(part.name)) for part, column in parts]
        columns = [from_numpy(number + np.int32(1)), *values, from_numpy(counts)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


# --- the QI table ---------------------------------------------------------------------------------------------------


def _dealt(
    batches: Iterable[tuple[CodeArray, WordArray, Any]],
    values: Iterable[ValuesAndWords],
    deal: Groups,
    key: SecretKey,
    folder: Path,
) -> Iterator[Any]:
    with closing(DealtRows(deal, key, folder)) as groups:
        groups.deal(values)
        pa.default_memory_pool().release_unused()  # what dealing needed, reading rows does not
        yield from _gathered(batches, groups, deal.number, deal.rows, key, folder)


def _gathered(
    batches: Iterable[tuple[CodeArray, WordArray, Any]],
    groups: RowGroups,
    number: int,
    rows: int,
    key: SecretKey,
    folder: Path,
) -> Iterator[Any]:
    """Yield the rows by group, those of a group in random order; `rows` is about their number, which sets the parts."""
    spill = _GroupSpill(SpillFile(folder), rows)
    with closing(spill.file):
        for codes, words, batch in ahead(batches):
            for start in range(0, codes.size, SCATTERED_ROWS):
                some = slice(start, start + SCATTERED_ROWS)
                _scatter(batch[some], groups.next(codes[some], words[some]), number, spill)
            del batch
        groups.finish()
        pa.default_memory_pool().release_unused()  # what reading needed, putting in order does not
        done = np.cumsum([0, *spill.counts]).tolist()
        yield from spill.rows(lambda part, _: _order_inside(spill.groups(part), done[part], key))


def _scatter(batch: Any, groups: GroupNumbers, number: int, spill: Spill) -> None:
    """Put the rows that are not withheld to the part that holds their groups."""
    published = groups != WITHHELD
    if not published.all():
        batch, groups = batch.filter(from_numpy(published)), groups[published]
    # the place of the group among all, as a fraction of 2^64: parts are ranges of it
    words = ((groups.astype(np.uint64) << np.uint64(32)) // np.uint64(number)) << np.uint64(32)
    spill.scatter(batch.append_column(GROUP, from_numpy(groups + np.int32(1))), words)


class _GroupSpill(Spill):
    """Rows by group range; the group is the last column."""

    def groups(self, part: int) -> GroupNumbers:
        """Return the groups of the rows of a part, in the order in which these came."""
        return np.concatenate([as_numpy(batch.column(batch.num_columns - 1)) for batch in self.read(part)])


def _order_inside(groups: GroupNumbers, done: int, key: SecretKey) -> Order:
    """Return the order by group, inside a group by fresh words; `done` rows have gone before.

    A word belongs to a place in the order by group and row, so that the order does not depend on what the parts are.
    """
    by_group = stable_order(groups - groups.min())
    in_order = groups.take(by_group)
    in_order -= in_order[0]
    inside = random_order(in_order, lambda attempt: key.words(Step.GROUP_ORDER, attempt, done, groups.size))
    return by_group.take(inside)
