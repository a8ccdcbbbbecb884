"""Hits of one who takes a row published like the person, the person's own row among them: bounded, and not loosely."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sfumato.methods.response.joint import Channel, Channels, JointTable, untouched
from sfumato.methods.response.risks import Link, hits_with_own_row
from sfumato.values.arrays import FloatArray
from tests.methods.test_response_risks import dense, kronecker, random_channels, tables


def exact_hits(table: JointTable, channels: Channels, group: int, value: int) -> float:
    """E[(1 + X_u)/(1 + X)], averaged over what the person is published with: by the distribution of (X_u, X - X_u)."""
    p = kronecker([dense(c) for c in channels[:-1]])
    others = table.array.reshape(-1, table.sizes[-1]).astype(int)
    a = int(table.places[group])
    others[a, value] -= 1
    total = 0.0
    for b in range(len(p)):
        same, different = (
            _number(np.repeat(p[b], counts)) for counts in (others[:, value], others.sum(axis=1) - others[:, value])
        )
        x, y = np.ogrid[: len(same), : len(different)]
        total += p[b, a] * float((same[:, None] * different * (1 + x) / (1 + x + y)).sum())
    return total


def _number(chances: FloatArray) -> FloatArray:
    """The distribution of a sum of independent indicators."""
    distribution = np.ones(1)
    for p in chances:
        distribution = np.convolve(distribution, [1 - p, p])
    return distribution


def test_the_oracle_by_enumerating_every_release() -> None:
    """Four records of two groups: 2^4 releases; in each the person is hit in its share of the rows published alike."""
    table = JointTable.from_array([[2, 1], [0, 1]])
    channels = (Channel.from_diagonal(2, 0.8), Channel(2, 1.0, 0.0))
    records = [(0, 0), (0, 0), (0, 1), (1, 1)]
    for person, (a, u) in enumerate(records):
        hits = 0.0
        for release in product(range(2), repeat=4):
            chance = np.prod([dense(channels[0])[b, own] for b, (own, _) in zip(release, records, strict=True)])
            alike = [v for b, (_, v) in zip(release, records, strict=True) if b == release[person]]
            hits += chance * alike.count(u) / len(alike)
        assert exact_hits(table, channels, a, u) == pytest.approx(hits, rel=1e-12)


def test_the_bound_holds_on_random_tables() -> None:
    rng = np.random.default_rng(31)
    cells = exceeded = 0
    for table in (t for t in tables(31, 60, attributes=2) if t.records <= 150):
        channels = (*random_channels(table, rng)[:-1], Channel(table.sizes[-1], 1.0, 0.0))
        bound, link = hits_with_own_row(table, channels), Link(table, channels).values.reshape(table.counts.shape)
        for group, value in np.argwhere(table.counts > 0):
            exact = exact_hits(table, channels, group, value)
            assert exact <= bound[group, value] * (1 + 1e-12)
            cells += 1
            exceeded += exact > link[group, value]
        assert (bound[table.counts == 0] == 0).all()
    assert cells > 150
    assert exceeded > cells / 2  # what the bound is for


def test_without_noise_it_is_nearly_the_share() -> None:
    """Hits are then exactly the shares; the bound exceeds those of n rows by some 1/n."""
    table = JointTable.from_array([[30, 70], [400, 600]])
    assert exact_hits(table, untouched(table.sizes), 0, 0) == pytest.approx(0.3)
    assert hits_with_own_row(table, untouched(table.sizes)) == pytest.approx(table.shares, rel=0.05)


def test_with_many_rows_it_is_the_link_risk() -> None:
    rng = np.random.default_rng(32)
    for table in tables(32, 10):
        many = JointTable.from_array(table.array * 10_000 + 1000)
        channels = random_channels(many, rng)
        link = Link(many, channels).values.reshape(many.counts.shape)
        assert hits_with_own_row(many, channels) == pytest.approx(link, rel=0.02)


def test_a_lone_record_is_hit_for_certain_without_noise() -> None:
    table = JointTable.from_array([[1, 0], [5, 5]])
    assert hits_with_own_row(table, untouched(table.sizes))[0].tolist() == [1, 0]
