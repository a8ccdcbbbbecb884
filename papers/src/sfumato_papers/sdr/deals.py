"""Two other deals than the project's own, of Anatomy's groups: what difference the deal makes to the errors.

The project deals in batches, each in a random order of the values (`sfumato.values.bucket_deal`). SDR took the code of
Anatomy's authors (Xiao and Tao, VLDB 2006), which fills groups from the fullest buckets; simplest of all is one
order of the values. Both give the group of each published record, where the records stand value by value.
"""

from __future__ import annotations

import numpy as np

from sfumato_papers.sdr.census import Ints


def in_one_order(kept: Ints, groups: int) -> Ints:
    """Deal the records in turn, value by value in ascending order.

    >>> in_one_order(np.array([2, 1, 1]), 2).tolist()
    [0, 1, 0, 1]
    """
    return np.arange(int(kept.sum())) % groups


def by_buckets(kept: Ints, L: int, draw: np.random.Generator) -> Ints:
    """Take a record of each of the L fullest buckets for a group, as long as L have any; ties are broken at random.

    What is left goes to random groups that do not have the value.
    """
    left, taken = kept.copy(), []
    while np.count_nonzero(left) >= L:
        fullest = np.argpartition(left + draw.random(left.size), -L)[-L:]
        left[fullest] -= 1
        taken.append(fullest)
    chosen = np.array(taken)
    values, groups = [chosen.ravel()], [np.repeat(np.arange(len(chosen)), L)]
    for value in np.flatnonzero(left):
        others = np.flatnonzero((chosen != value).all(axis=1))
        groups.append(draw.choice(others, int(left[value]), replace=False))
        values.append(np.full(int(left[value]), value))
    return np.concatenate(groups)[np.argsort(np.concatenate(values), kind="stable")].astype(np.int64)
