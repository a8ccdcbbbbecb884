"""A file sorted by its sensitive attribute is shuffled, and its published column tells nothing by position."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.release import Release
from sfumato.publisher.table import scan
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.engines.tools import planned, released, rows_of

ALARM = 1e-3  # of the permutation test below, for one release; the seed is fixed
ROWS = 3000
POLICY = make_policy({"uid": "other", "disease": "sensitive"})


def sorted_table() -> pa.Table:
    """Return a table sorted by disease. `uid` is unique and in random order: only this test knows whose it is."""
    rng = np.random.default_rng(5)
    diseases = np.sort(rng.choice(["asthma", "flu", "gout", "mumps"], ROWS, p=[0.4, 0.3, 0.2, 0.1]))
    return pa.table({"uid": [f"u{k}" for k in rng.permutation(ROWS)], "disease": diseases.tolist()})


def position_p_value(release: Release, table: pa.Table, draws: int = 1999) -> float:
    """Return the p-value of: the ORIGINAL value of a row does not depend on where the row was published.

    A permutation test with the sum, over values, of squared mean positions (the between-group variance of ranks).
    """
    truth = dict(zip(table["uid"].to_pylist(), table["disease"].to_pylist(), strict=True))
    originals = np.unique([truth[uid] for uid, _ in rows_of(release)], return_inverse=True)[1]
    sizes = np.bincount(originals)

    def spread(codes: np.ndarray) -> float:
        return float((np.bincount(codes, weights=np.arange(codes.size)) ** 2 / sizes).sum())

    rng = np.random.default_rng(11)
    found = spread(originals)
    return (1 + sum(spread(rng.permutation(originals)) >= found for _ in range(draws))) / (draws + 1)


def test_a_sorted_table_is_shuffled() -> None:
    assert planned(scan(sorted_table(), POLICY)).shuffle


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_position_tells_nothing(format: str, tmp_path: Path) -> None:
    release = released(sorted_table(), POLICY, folder=tmp_path / "r", format=format)
    assert release.manifest.data.shuffled
    assert position_p_value(release, sorted_table()) > ALARM


def test_without_the_shuffle_position_tells(tmp_path: Path) -> None:
    """Power: the same test sees the order where it is left."""
    release = released(sorted_table(), POLICY, folder=tmp_path / "r", shuffle=False)
    assert position_p_value(release, sorted_table()) <= ALARM


def test_the_shuffle_with_a_kept_key_hides_the_order_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key file and record key: draws belong to records, the order still does not come from the table."""
    monkeypatch.setattr(SecretKey, "fresh", classmethod(lambda cls: cls.from_seed(8)))  # the shuffle's own key
    policy = make_policy({"uid": "other", "disease": "sensitive"}, extra='record_key = "uid"\nseries = "s"')
    key = SecretKey(bytes(range(32)), kept=True)
    release = released(sorted_table(), policy, folder=tmp_path / "r", key=key)
    assert position_p_value(release, sorted_table()) > ALARM


def test_dictionaries_do_not_tell_the_first_value(tmp_path: Path) -> None:
    """Row groups of a release have sorted dictionaries: the order of first appearance stays untold."""
    import pyarrow.parquet as pq

    table = sorted_table().sort_by([("disease", "descending")])
    release = released(table, POLICY, folder=tmp_path / "r", shuffle=False)
    column = pq.read_table(release.data, read_dictionary=["disease"])["disease"].chunk(0)
    assert column.dictionary.to_pylist() == sorted(column.dictionary.to_pylist())
