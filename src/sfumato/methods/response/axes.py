"""The axes of a profile's joint table, and what its cells are called.

A quasi-identifier that may be randomized has an axis of its own. All others share one axis, with the combinations that
occur: they are published as they are, so that nothing is released with any other combination. So a domain is as large
as what may be randomized makes it, and fixing a quasi-identifier makes it smaller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.methods.response.channels import Channel, Channels
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import Limit, Limits
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import Domain, SensitiveDomain, Value
from sfumato.values.profile import Profile
from sfumato.values.requirement import GroupLimit, RiskLimit, exact, find_value


@dataclass(frozen=True, eq=False)
class Axes:
    """Which quasi-identifiers have an axis of their own, by number, and which share one."""

    profile: Profile
    own: tuple[int, ...]
    shared: tuple[int, ...]

    @classmethod
    def of(cls, profile: Profile, untouched: Collection[str] = ()) -> Axes:
        """Return the axes where these quasi-identifiers stay as they are."""
        numbers = range(len(profile.quasi_identifiers))
        shared = tuple(k for k in numbers if profile.quasi_identifiers[k] in untouched)
        return cls(profile, tuple(k for k in numbers if k not in shared), shared)

    @cached_property
    def _together(self) -> tuple[IntArray, IntArray]:
        """The codes of the shared ones that occur together, [combinations, shared]; and which each cell has."""
        combinations, place = np.unique(self.profile.cells[:, list(self.shared)], axis=0, return_inverse=True)
        return combinations.astype(np.int64), place.ravel().astype(np.int64)

    @cached_property
    def table(self) -> JointTable:
        """The joint table: an axis for each of `own`, one for the shared ones, one for all sensitive columns."""
        profile, names = self.profile, self.profile.quasi_identifiers
        columns: list[npt.NDArray[np.integer]] = [profile.cells[:, k] for k in self.own]
        sizes = [profile.quasi_domain.sizes[k] for k in self.own]
        called = [names[k] for k in self.own]
        if self.shared:
            combinations, place = self._together
            columns.append(place)
            sizes.append(len(combinations))
            called.append(", ".join(names[k] for k in self.shared))
        columns.append(profile.sensitive_domain.join(profile.cells[:, len(names) :].T))
        sizes.append(profile.sensitive_domain.size)
        called.append(profile.sensitive_domain.name)
        return JointTable.from_cells(sizes, np.column_stack(columns), profile.numbers, called)

    def codes(self, codes: IntArray) -> IntArray:
        """Return the codes of each quasi-identifier ([rows, quasi-identifiers]) from those of the axes."""
        whole = np.empty((len(codes), len(self.profile.quasi_identifiers)), dtype=np.int64)
        whole[:, list(self.own)] = codes[:, : len(self.own)]
        if self.shared:
            whole[:, list(self.shared)] = self._together[0][codes[:, len(self.own)]]
        return whole

    def labels(self, cells: IntArray) -> Iterator[tuple[str, ...]]:
        """Yield each cell in words: its quasi-identifiers, then its sensitive value; a code of -1 means any value."""
        parts = self.profile.quasi_domain.parts
        for codes, value in zip(self.codes(cells).tolist(), cells[:, -1].tolist(), strict=True):
            quasi = ("any" if code < 0 else part.labels[code] for part, code in zip(parts, codes, strict=True))
            yield (*quasi, self.profile.sensitive_domain.labels[value])

    def channels(self, of_axes: Channels) -> Channels:
        """Return the channel of each quasi-identifier, and of the sensitive columns, from those of the axes."""
        alone = dict(zip(self.own, of_axes, strict=False))
        sizes = enumerate(self.profile.quasi_domain.sizes)
        return (*(alone.get(k) or Channel(d, 1.0, 0.0) for k, d in sizes), of_axes[-1])

    # --- limits -------------------------------------------------------------------------------------------------------

    def limits(self, limit: RiskLimit) -> FloatArray:
        """Return the limit of each value in each group, [groups, d_s]; or one for all."""
        if not limit.groups:
            return np.array(float(exact(limit.limit)))
        return np.array([float(number) for number in limit.limits])[self.strictest(limit)]

    def strictest(self, limit: RiskLimit) -> IntArray:
        """Return which of `limit.limits` each value in each group has: [groups, d_s]."""
        which = np.zeros(self.table.counts.shape, dtype=np.int64)
        loosest_first = sorted(enumerate(limit.groups, 1), key=lambda pair: -exact(pair[1].limit))
        for k, group in loosest_first:
            which[np.ix_(*self._members(group))] = k
        return which

    def exact_limits(self, limit: RiskLimit) -> Limit:
        """Return the same with the numbers as they are stated."""
        return Limits(self.limits(limit), limit.limits) if limit.groups else exact(limit.limit)

    def _members(self, group: GroupLimit) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which groups, and which sensitive values, belong to records with a limit of their own."""
        sensitive, named = self.profile.sensitive_domain, dict(group.where)
        quasi = self.codes(self.table.groups)
        values = np.column_stack(sensitive.split(np.arange(sensitive.size, dtype=np.int32)))
        return chosen_by(self.profile.quasi_domain.parts, quasi, named), chosen_by(sensitive.parts, values, named)


def chosen_by(
    parts: Sequence[Domain], rows: npt.NDArray[np.integer], named: dict[str, tuple[Value, ...]]
) -> npt.NDArray[np.bool_]:
    """Return which rows of codes have, in each column that is named, one of the named values."""
    chosen = np.ones(len(rows), dtype=np.bool_)
    for part, column in zip(parts, rows.T, strict=True):
        if part.name in named:
            alone = SensitiveDomain((part,))
            chosen &= np.isin(column, [find_value(alone, value) for value in named[part.name]])
    return chosen
