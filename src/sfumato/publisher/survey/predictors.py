"""Which published columns tell the sensitive value? Learned on one half of a sample, tried on the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.rows.encoding import Encoder
from sfumato.engines.rows.looking import SEED, PublishedRows
from sfumato.publisher.survey.found import CLEAR_Z, Column, Prediction, Predictor
from sfumato.publisher.table import Table
from sfumato.values.arrays import IntArray, Progress
from sfumato.values.arrow import is_text
from sfumato.values.attributes import Domain
from sfumato.values.profile import Profile
from sfumato.values.randomness import simulation

QUANTILES = 50  # a numeric column with more values than this is cut at so many quantiles first
CLEAR_GAIN = 0.01
CLEAR_BITS = 0.05
FEWEST = 40  # records below which nothing can be learned of a column


def find_predictors(
    published: PublishedRows, table: Table, profile: Profile, columns: tuple[Column, ...], rows: int, progress: Progress
) -> Prediction:
    """Return how well each `other` and `quasi_identifier` column predicts the sensitive value, best first.

    The rule: the most common sensitive value of the records with the same column value; for a value that was
    not seen, the overall most common one. What shifts the odds without changing that guess shows as information.
    `published` are these columns and the sensitive ones.
    """
    names = table.schema.names("other", "quasi_identifier")
    sample = published.sample(rows, progress)
    sensitive = _sensitive_codes(sample, table, profile)
    known = np.flatnonzero(sensitive >= 0)
    if known.size < FEWEST:
        return Prediction(0, 0, ())
    shuffled = simulation(SEED).permutation(known)
    learn, test = shuffled[: known.size // 2], shuffled[known.size // 2 :]
    facts = {column.name: column for column in columns}
    found = []
    for name in names:
        codes = column_codes(sample.column(name), facts[name])
        hit_rate, baseline, z = prediction(codes, sensitive, learn, test)
        bits, bits_z = information(codes, sensitive, learn, test)
        clear = (z > CLEAR_Z and hit_rate - baseline > CLEAR_GAIN) or (bits_z > CLEAR_Z and bits > CLEAR_BITS)
        found.append(Predictor(name, table.schema[name].role, hit_rate, baseline, z, bits, bits_z, clear))
    found.sort(key=lambda p: (-p.hit_rate, -p.information))
    return Prediction(learn.size, test.size, tuple(found))


def prediction(codes: IntArray, sensitive: IntArray, learn: IntArray, test: IntArray) -> tuple[float, float, float]:
    """Return the hit rate of the column's rule, that of the overall mode, and z of their difference.

        z = (a - b) / sqrt(a + b)        McNemar: a records that only the rule guesses right, b only the mode

    >>> secret = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    >>> prediction(secret, secret, np.arange(4), np.arange(4, 8))
    (1.0, 0.0, 2.0)
    """
    values, counts = np.unique(sensitive[learn], return_counts=True)
    mode, size = values[counts.argmax()], int(sensitive.max()) + 1
    guess = np.full(int(codes.max()) + 1, mode, dtype=np.int64)
    pairs, counts = np.unique(codes[learn] * size + sensitive[learn], return_counts=True)
    rarest_first = np.argsort(counts, kind="stable")
    column_value, value = np.divmod(pairs[rarest_first], size)
    guess[column_value] = value  # the last one written stays: the most common
    by_rule, by_mode = guess[codes[test]] == sensitive[test], sensitive[test] == mode
    gained, lost = int((by_rule & ~by_mode).sum()), int((by_mode & ~by_rule).sum())
    z = (gained - lost) / math.sqrt(gained + lost) if gained + lost else 0.0
    return float(by_rule.mean()), float(by_mode.mean()), z


def information(codes: IntArray, sensitive: IntArray, learn: IntArray, test: IntArray) -> tuple[float, float]:
    """Return the bits per record that the column tells of the sensitive value, and z of their mean.

        mean over the tried records of log2 q(value | column) / q(value)        both q learned on the others

    The smoothing, q(v | c) = (n_cv + k q(v)) / (n_c + k) with k the number of values, q(v) ~ n_v + 1, makes it
    negative for a column that tells nothing.

    >>> secret = np.arange(4000) % 2
    >>> bits, z = information(secret, secret, np.arange(2000), np.arange(2000, 4000))
    >>> round(bits, 3), round(z)
    (0.999, 1997)
    """
    size = int(sensitive.max()) + 1
    marginal = np.bincount(sensitive[learn], minlength=size) + 1.0
    marginal /= marginal.sum()
    groups = np.bincount(codes[learn], minlength=int(codes.max()) + 1)
    pairs, counts = np.unique(codes[learn] * size + sensitive[learn], return_counts=True)
    tried = codes[test] * size + sensitive[test]
    place = np.minimum(np.searchsorted(pairs, tried), pairs.size - 1)
    together = np.where(pairs[place] == tried, counts[place], 0)
    prior, strength = marginal[sensitive[test]], np.unique(sensitive[learn]).size
    gains = np.log2((together / prior + strength) / (groups[codes[test]] + strength))
    spread = max(float(gains.std()), 1 / math.sqrt(gains.size))  # at least one record that is a bit off
    return float(gains.mean()), float(gains.mean()) / spread * math.sqrt(gains.size)


def _sensitive_codes(sample: Any, table: Table, profile: Profile) -> IntArray:
    """Return the code of each row's sensitive value, -1 where it has none."""
    parts = [_part_codes(sample.column(part.name), part, table) for part in profile.domain.parts]
    joined = np.zeros(sample.num_rows, dtype=np.int64)
    for size, codes in zip(profile.domain.sizes, parts, strict=True):
        joined = joined * size + codes
    return np.where(np.logical_and.reduce([codes >= 0 for codes in parts]), joined, -1)


def _part_codes(column: Any, part: Domain, table: Table) -> IntArray:
    attribute = table.schema[part.name]
    if attribute.recoding or attribute.declared:  # numbered already
        return np.asarray(column.to_numpy(), dtype=np.int64)
    codes = Encoder(attribute, part).encode(column.combine_chunks(), 0)
    return codes.astype(np.int64)


def column_codes(column: Any, facts: Column) -> IntArray:
    """Return a small number for each value of a column; numbers and dates with many values by quantiles."""
    may_be_cut = not is_text(column.type) or facts.type.startswith("text (")
    if may_be_cut and len(pc.unique(column)) > QUANTILES:
        return _quantile_codes(_numbers(column, column.type))
    coded = pc.dictionary_encode(column.combine_chunks())
    return np.asarray(coded.indices.fill_null(len(coded.dictionary)).to_numpy(), dtype=np.int64)


def _numbers(column: Any, kind: Any) -> npt.NDArray[np.float64]:
    """Return the values as numbers, dates too, NaN for a missing one."""
    if is_text(kind):
        return np.array([math.nan if text is None else float(text) for text in column.to_pylist()])
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _quantile_codes(numbers: npt.NDArray[np.float64]) -> IntArray:
    missing = ~np.isfinite(numbers)
    if missing.all():
        return np.zeros(numbers.size, dtype=np.int64)
    breaks = np.unique(np.quantile(numbers[~missing], np.arange(1, QUANTILES) / QUANTILES))
    codes = np.searchsorted(breaks, np.where(missing, 0, numbers), side="right")
    return np.where(missing, QUANTILES, codes).astype(np.int64)
