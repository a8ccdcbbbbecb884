"""Dealing rows to labels: exact quotas, the same deal as sorting each class by its words."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.engines.deal.allocation import EqualWords, Quotas, ReadAgain, find_deal
from tests.constants import set_constants


def by_sorting(codes: np.ndarray, words: np.ndarray, quotas: Quotas) -> np.ndarray:
    """The slow, obviously right deal."""
    labels = np.empty(codes.size, dtype=np.int64)
    for c in range(quotas.classes):
        rows = np.flatnonzero(codes == c)
        entries = slice(quotas.starts[c], quotas.starts[c + 1])
        labels[rows[np.argsort(words[rows])]] = np.repeat(quotas.labels[entries], quotas.rows[entries])
    return labels


@pytest.mark.parametrize("crowded", [False, True])
def test_equals_sorting(crowded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    dealt = 0
    for _ in range(600):
        m, k = rng.integers(1, 8), rng.integers(1, 6)
        rows = rng.integers(0, 12, (k, m)) * (rng.random((k, m)) < 0.6)
        codes = np.repeat(np.arange(m), rows.sum(axis=0)).astype(np.int32)
        rng.shuffle(codes)
        words = rng.integers(0, 2**64, codes.size, dtype=np.uint64) >> np.uint64(52 if crowded else 0)
        set_constants(
            monkeypatch,
            "sfumato.engines",
            TABLE_BITS=int(rng.integers(3, 12)),
            MOST_COLLECTED=int(rng.choice([1, 5, 1000])),
        )
        if not codes.size:
            continue
        quotas = Quotas.of([(np.arange(m), rows[j]) for j in range(k)], int(m))
        cut = int(rng.integers(1, codes.size + 1))
        pieces = [(codes[i : i + cut], words[i : i + cut]) for i in range(0, codes.size, cut)]
        try:
            deal = find_deal(ReadAgain(lambda pieces=pieces: pieces), quotas)
        except EqualWords:
            assert crowded
            continue
        dealt += 1
        assert (deal.label_of(codes, words) == by_sorting(codes, words, quotas)).all()
    assert dealt > 200


def test_ties_at_a_boundary_are_told() -> None:
    quotas = Quotas.of([(np.array([0]), np.array([1])), (np.array([0]), np.array([1]))], 1)
    same = np.array([5, 5], dtype=np.uint64)
    with pytest.raises(EqualWords):
        find_deal(ReadAgain(lambda: [(np.zeros(2, dtype=np.int32), same)]), quotas)
