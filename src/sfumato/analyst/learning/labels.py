"""Published labels, and what each says of the true one: E[b(y, k) | x] = 1{x = k}."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.analyst.randomized.channel import ValueWeights, is_usable, randomization_of
from sfumato.errors import ReleaseError, SingularMatrix, UsageError
from sfumato.release.folder import ReleaseFolder, read_rows
from sfumato.show.words import listed
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.attributes import Domain, Value
from sfumato.values.mechanism import Mechanism, SubTable
from sfumato.values.text import meant

MOST_WEIGHTS = 1 << 24
"""Outputs times classes: more weights take more than 128 megabytes."""
AT_ONCE = 1 << 22
"""Numbers of a block of unit vectors, of which weights are computed."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelChannel:
    """How a label was published: its classes, the outputs that stand for them, and the weights b of the outputs.

    classes: the true values. outputs: what `y` holds, a value, a set of values or a card; where the release has
    sub-tables, with the number of the row's, and where columns were randomized together, with all of them.
    weights: [outputs, classes]. Every line adds up to one; numbers can be negative.
    """

    column: str
    classes: npt.NDArray[Any]
    outputs: npt.NDArray[Any]
    weights: FloatArray

    def __repr__(self) -> str:
        return f"LabelChannel({self.column!r}, {self.classes.size} classes, {self.outputs.size} outputs)"

    def codes(self, y: Any) -> IntArray:
        """Return the numbers of published labels among the outputs."""
        found = [self._number.get(value, -1) for value in np.asarray(y).ravel().tolist()]
        codes = np.array(found, dtype=np.int64)
        if (codes < 0).any():
            strange = np.asarray(y).ravel()[codes < 0][0]
            raise UsageError(
                f"y has {strange!s:.60}, but {self.column!r} is published as {_named(self.outputs)}.",
                "Give the y of `training_data`: the labels as they are published, never corrected or encoded.",
            )
        return codes

    def pseudo_labels(self, y: Any) -> FloatArray:
        """Return b(y_i, k), [rows, classes]: whatever the true label x is, its mean is 1 for k = x and 0 for others."""
        return self.weights[self.codes(y)]

    def number_of(self, label: Any) -> int:
        """Return the number of a class."""
        found = np.flatnonzero(self.classes == label)
        if found.size != 1:
            raise UsageError(
                f"'{label}' is no class of {self.column!r}: its classes are {_named(self.classes)}.",
                "Name one of its classes.",
            )
        return int(found[0])

    @cached_property
    def _number(self) -> dict[Any, int]:
        return {output: number for number, output in enumerate(self.outputs.tolist())}


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What estimators take: features as a pandas table, published labels, and how these were published."""

    X: Any
    y: npt.NDArray[Any]
    channel: LabelChannel


def training_data(release: ReleaseFolder, label: str, features: Sequence[str]) -> TrainingData:
    """Return the rows of a release for scikit-learn: untouched features and a randomized label.

    Refused: a feature that is randomized, a label that is not, and a release by groups, whose rows have no label.
    """
    if release.manifest.in_buckets:
        raise UsageError(
            f"The rows of {str(release.folder)!r} have no {label!r}: it stands apart, in groups.",
            "Use release.regress(...), or ask for counts and tables: they need no label in each row.",
        )
    names = [features] if isinstance(features, str) else list(features)
    _check_columns(release, label, names)
    mechanism = next(m for m in randomization_of(release).mechanisms if label in m.domain.names)
    _check_features(release, mechanism, names)
    rows = read_rows(release)
    channel = channel_of(mechanism, label)
    return TrainingData(rows.select(names).to_pandas(), channel.outputs[_output_numbers(mechanism, rows)], channel)


# --- the weights ------------------------------------------------------------------------------------------------------


def channel_of(mechanism: Mechanism, label: str) -> LabelChannel:
    """Return the weights of all outputs of a mechanism for one of its columns.

    A column that was randomized with others is summed over these: b(y, k) = sum of P^-1[x, y] over the x with k.
    """
    place = mechanism.domain.names.index(label)
    part = mechanism.domain.parts[place]
    _check_size(mechanism, part)
    weights = [_weights(table, mechanism.domain.split(table.codes)[place], part) for table in mechanism.tables]
    return LabelChannel(label, _array(part.values, part.labels), _outputs(mechanism), np.concatenate(weights))


def _weights(table: SubTable, classes: CodeArray, part: Domain) -> FloatArray:
    if not is_usable(table.matrix):
        raise SingularMatrix(
            f"What is published of {part.name!r} does not tell its values apart: "
            f"{table.matrix.why_singular or f'condition number {table.matrix.condition_number:.1e}.'}",
            "No correction of labels exists. release.count(..., method='em') estimates counts without an inverse.",
        )
    weights = ValueWeights(table.matrix, classes.astype(np.int64), len(part.values))
    outputs = table.matrix.outputs
    step = max(1, AT_ONCE // outputs)
    blocks = [np.eye(min(step, outputs - first), outputs, first) for first in range(0, outputs, step)]
    return np.concatenate([weights.totals(block) for block in blocks])


def _outputs(mechanism: Mechanism) -> npt.NDArray[Any]:
    """Return what can be published, in the order of the sub-tables and of their matrices' rows."""
    published = mechanism.published
    if mechanism.label is None:
        return _array(published.values, published.labels)
    return np.array(
        [
            f"{published.labels[code]} (sub-table {number})"
            for number, table in enumerate(mechanism.tables, 1)
            for code in table.published.tolist()
        ]
    )


def _array(values: Sequence[Value | tuple[Value, ...]], labels: Sequence[str]) -> npt.NDArray[Any]:
    """Return values of one type as they are, all others as they are written: scikit-learn sorts labels."""
    kinds = {type(value) for value in values}
    return np.array(values) if len(kinds) == 1 and kinds <= {str, int, bool} else np.array(labels)


def _output_numbers(mechanism: Mechanism, rows: Any) -> IntArray:
    """Return the number of each row's output."""
    codes = mechanism.published.join(_codes(rows[part.name], part) for part in mechanism.published.parts)
    tables = np.zeros(codes.size, dtype=np.int64)
    if mechanism.label is not None:
        tables = rows[mechanism.label].to_numpy().astype(np.int64) - 1
    numbers, start = np.full(codes.size, -1, dtype=np.int64), 0
    for number, table in enumerate(mechanism.tables):
        own = np.flatnonzero(tables == number)
        at = np.minimum(table.rows_of(codes[own]), table.matrix.outputs - 1)
        fits = table.published[at] == codes[own]
        numbers[own[fits]] = start + at[fits]
        start += table.matrix.outputs
    if (numbers < 0).any():
        raise _strange(f"row {int(np.argmin(numbers)) + 1:,}")
    return numbers


def _codes(column: Any, part: Domain) -> CodeArray:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    known = [part.index.get(value, -1) for value in encoded.dictionary.to_pylist()]
    if -1 in known:
        raise _strange(f"{part.name!r}, which holds {encoded.dictionary[known.index(-1)]},")
    return np.asarray(np.array(known, dtype=np.int32)[encoded.indices.to_numpy()])


# --- refusals ---------------------------------------------------------------------------------------------------------


def _check_columns(release: ReleaseFolder, label: str, features: Sequence[str]) -> None:
    for name in (label, *features):
        if name not in release.column_names:
            raise UsageError(f"The release has no column {name!r}.", meant(name, release.column_names))
    if label not in randomization_of(release).names:
        raise UsageError(
            f"{label!r} is published as it was: learning from it needs no correction.",
            "Use scikit-learn on release.to_pandas() as on any table.",
        )
    if not features:
        raise UsageError("There is no feature to learn from.", "Name untouched columns: features=['age', 'sex'].")


def _check_features(release: ReleaseFolder, mechanism: Mechanism, features: Sequence[str]) -> None:
    if blurred := [name for name in features if name in randomization_of(release).names]:
        raise UsageError(
            f"{listed(map(repr, blurred))} cannot be a feature: it is randomized, and no model can split on "
            "a true value that it does not know.",
            "Leave it out. For a model of true values use release.regress(...). To predict for rows as they "
            "are published, train scikit-learn on release.to_pandas() without any correction.",
        )
    if mechanism.label in features:
        raise UsageError(
            f"{mechanism.label!r} cannot be a feature: the publisher chose it by the label itself.",
            "Leave it out: the weights of the labels take it into account.",
        )


def _check_size(mechanism: Mechanism, part: Domain) -> None:
    outputs = sum(table.matrix.outputs for table in mechanism.tables)
    if outputs * len(part.values) > MOST_WEIGHTS:
        raise UsageError(
            f"{part.name!r} has {len(part.values):,} classes, published as {outputs:,} outputs: too many to learn.",
            "Merge values in the policy, or publish columns each by a method of its own.",
        )


def _strange(what: str) -> ReleaseError:
    return ReleaseError(
        f"The data do not fit the manifest: {what} has a label that cannot be published.",
        "Run `sfumato verify`, and get the release anew from the publisher.",
    )


def _named(values: npt.NDArray[Any]) -> str:
    return listed(map(repr, values.tolist()))
