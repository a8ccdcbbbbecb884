"""Small domain randomization from table to estimate: exact quotas, sub-tables that keep their values, true figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, chi2

from sfumato.analyst.randomized.figures import FEW
from sfumato.analyst.release import Release
from sfumato.engines.deal import allocation
from sfumato.engines.deal.allocation import dealt, table_rows
from sfumato.errors import PlanMismatch, TableError
from sfumato.methods.plan import Plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import scan
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines import tools
from tests.engines.tools import released

ALARM = 1e-6
VALUES = 30


def policy_text(assurance: str = "proved", rho: tuple[str, str] = ("1/5", "1/2"), more: str = "") -> str:
    return f"""
[columns.n]
role = "other"
publish_as_is = "a test follows rows by it"
[columns.sex]
role = "quasi_identifier"
[columns.job]
role = "sensitive"
{more}
[method]
name = "small-domain"
assurance = "{assurance}"
minimum_sub_table = 300
[requirement]
rho1 = "{rho[0]}"
rho2 = "{rho[1]}"
"""


def policy(assurance: str = "proved", rho: tuple[str, str] = ("1/5", "1/2"), more: str = "") -> Policy:
    return Policy.parse(policy_text(assurance, rho, more))


def workers(rows: int = 4000, seed: int = 3) -> pa.Table:
    """Return a table with many values of unequal frequency, in random order; n tells rows apart."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, VALUES + 1) ** 0.7
    jobs = rng.choice(VALUES, rows, p=weights / weights.sum())
    sex = np.where(rng.random(rows) < 0.3 + 0.4 * (jobs % 2), "F", "M")
    return pa.table({"n": np.arange(rows), "sex": sex.tolist(), "job": [f"job {k:02}" for k in jobs]})


def planned(table: Any, policy: Policy, shuffle: bool = False) -> tuple[Any, Plan]:
    opened = scan(table, policy)
    return opened, tools.planned(opened, shuffle)


@pytest.mark.parametrize("assurance", ["proved", "as-published"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_every_sub_table_gets_exactly_its_quotas(
    assurance: str, shuffled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recounted on the private table: n tells which record a published row is."""
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=333)
    check_quotas(workers(), assurance, shuffled, tmp_path / "r")


def check_quotas(workers_read: Any, assurance: str, shuffled: bool, folder: Path) -> None:
    """Publish the workers, and count the records of each value in each sub-table."""
    table = workers()
    opened, made = planned(workers_read, policy(assurance), shuffled)
    assert len(made.figures.mechanism.tables) > 1
    release = publish(opened, made, folder, key=SecretKey.from_seed(5))
    data = release.to_arrow().to_pydict()
    truth = dict(zip(table["n"].to_pylist(), table["job"].to_pylist(), strict=True))
    dealt = Counter((label, truth[n]) for label, n in zip(data["sub_table"], data["n"], strict=True))
    due = {
        (number, made.figures.domain.values[code]): int(rows)
        for number, (part, quotas) in enumerate(
            zip(made.figures.mechanism.tables, made.figures.quotas, strict=True), start=1
        )
        for code, rows in zip(part.codes.tolist(), quotas.tolist(), strict=True)
        if rows
    }
    assert dealt == due
    for label, job in zip(data["sub_table"], data["job"], strict=True):
        assert made.figures.domain.index[job] in made.figures.mechanism.tables[label - 1].codes
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]


def test_rows_are_dealt_at_random(tmp_path: Path) -> None:
    """The first records of a value are in each sub-table as often as the quotas say: chi-square, false alarm 1e-6."""
    opened, made = planned(workers(1500), policy())
    code = int(np.argmax([sum((q > 0) for q in column) for column in _quota_table(made).T]))
    quota = _quota_table(made)[:, code]
    assert (quota > 0).sum() > 1
    found = np.zeros(quota.size)
    first = opened.source._table["job"].to_pylist().index(made.figures.domain.values[code])
    for seed in range(150):
        key = SecretKey.from_seed(seed)
        labels_of = dealt(
            table_rows(opened.source, opened.schema, made.figures.mechanism, key),
            made.figures.mechanism,
            made.figures.quotas,
        )
        batch = next(iter(opened.source.batches(["job"])))
        codes = np.array([made.figures.domain.index[v] for v in batch.rows.column(0).to_pylist()], dtype=np.int32)
        found[labels_of(batch, key, None, codes)[first]] += 1
    expected = 150 * quota / quota.sum()
    used = expected > 0
    statistic = ((found[used] - expected[used]) ** 2 / expected[used]).sum()
    assert float(chi2.sf(statistic, used.sum() - 1)) > ALARM


def _quota_table(made: Plan) -> np.ndarray[Any, np.dtype[np.int64]]:
    quotas = np.zeros((len(made.figures.quotas), made.figures.domain.size), dtype=np.int64)
    for row, (table, rows) in enumerate(zip(made.figures.mechanism.tables, made.figures.quotas, strict=True)):
        quotas[row, table.codes] = rows
    return quotas


def test_equal_words_at_a_boundary_are_dealt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, made = planned(workers(), policy())
    honest, calls = allocation.find_deal, []

    def unlucky(stream: Any, quotas: Any) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise allocation.EqualWords
        return honest(stream, quotas)

    monkeypatch.setattr("sfumato.engines.deal.allocation.find_deal", unlucky)
    key = SecretKey.from_seed(1)
    labels_of = dealt(
        table_rows(opened.source, opened.schema, made.figures.mechanism, key),
        made.figures.mechanism,
        made.figures.quotas,
    )
    batch = next(iter(opened.source.batches(["job"])))
    codes = np.array([made.figures.domain.index[v] for v in batch.rows.column(0).to_pylist()], dtype=np.int32)
    labels = labels_of(batch, key, None, codes)
    assert np.array_equal(np.bincount(labels), [int(q.sum()) for q in made.figures.quotas])
    assert len(calls) == 3


@pytest.mark.parametrize("blocks", ["several", "one"])
@pytest.mark.parametrize("change", ["one value more", "another value", "a row less"])
def test_a_changed_table_is_refused(blocks: str, change: str, tmp_path: Path) -> None:
    """Also where the table stays one: a value that did not occur would only ever be kept, and so be told."""
    table, asked = workers(), policy()
    if blocks == "one":
        asked = Policy.parse(policy_text().replace("300", "5000"))
    _, made = planned(table, asked)
    assert (made.figures.mechanism.label is None) == (blocks == "one")
    jobs = table["job"].to_pylist()
    jobs[0] = "job 23" if jobs[0] != "job 23" else "job 22"
    if change == "another value":
        jobs[0] = "new job"
    changed = table.set_column(2, "job", pa.array(jobs)) if change != "a row less" else table.slice(1)
    complaint = (
        "outside its declared domain" if (blocks, change) == ("one", "another value") else "not the one that was"
    )
    with pytest.raises((PlanMismatch, TableError), match=complaint):
        publish(scan(changed, asked), made, tmp_path / "r", key=SecretKey.from_seed(1))
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("assurance", ["proved", "as-published"])
def test_no_posterior_exceeds_rho2(assurance: str) -> None:
    """Exactly, on the integers that are sampled: prior = the sub-table's frequencies, any published value."""
    _, made = planned(workers(), policy(assurance))
    protected = {c for c in range(made.figures.domain.size) if made.figures.counts[c] * 5 <= made.rows}
    worst = Fraction(0)
    for table, quotas in zip(made.figures.mechanism.tables, made.figures.quotas, strict=True):
        noise, total = int(table.matrix.noise[0]), int(quotas.sum())
        for place, code in enumerate(table.codes.tolist()):
            if code not in protected:
                continue
            own = int(quotas[place]) * table.matrix.diagonal_weight(place)
            others = (total - int(quotas[place])) * noise
            worst = max(worst, Fraction(own, own + others), Fraction(int(quotas[place]), total))
    assert Fraction(1, 2) * (1 - Fraction(1, 10**9)) < worst <= Fraction(1, 2)


# --- estimates --------------------------------------------------------------------------------------------------------


def dense_estimate(release: Release, where: Callable[[dict[str, Any]], bool]) -> tuple[Any, Any]:
    """Return counts and variances of every value by dense algebra, sub-table by sub-table."""
    mechanism = release.manifest.mechanism_values[0]
    rows = pq.read_table(release.data).to_pylist()
    value, variance = np.zeros(mechanism.domain.size), np.zeros(mechanism.domain.size)
    for number, table in enumerate(mechanism.tables, start=1):
        of_table = [row["job"] for row in rows if row["sub_table"] == number and where(row)]
        seen = Counter(mechanism.domain.index[job] for job in of_table)
        observed = np.array([seen[code] for code in table.codes.tolist()], dtype=float)
        assert observed.sum() == len(of_table)
        inverse = np.linalg.inv(table.matrix.dense())
        value[table.codes] += inverse @ observed
        floored = floored_counts(observed, table.matrix.dense())
        variance[table.codes] += (inverse**2) @ floored - inverse @ floored
    return value, variance


def floored_counts(observed: Any, dense: Any) -> Any:
    """Return the published counts, at least those by chance where these are few: what variances are computed from."""
    chance = observed.sum() * dense.min(axis=1)
    return np.where(chance < FEW, np.maximum(observed, chance), observed)


def test_an_estimate_is_the_sum_over_the_sub_tables(tmp_path: Path) -> None:
    release = released(workers(), policy(), folder=tmp_path / "r", shuffle=False)
    for where, keeps in (("", lambda row: True), ("sex = 'F'", lambda row: row["sex"] == "F")):
        answer = release.count(by="job", where=where)
        value, variance = dense_estimate(release, keeps)
        assert np.allclose(answer.value, value, atol=1e-8)
        assert np.allclose(answer.standard_error**2, variance, rtol=1e-8, atol=1e-8)
    by_label = release.count(by=["sub_table", "job"])
    assert np.allclose(by_label.value.reshape(-1, VALUES).sum(axis=0), release.count(by="job").value)


def test_a_value_outside_a_sub_table_gets_exactly_nothing_from_it(tmp_path: Path) -> None:
    release = released(workers(), policy(), folder=tmp_path / "r", shuffle=False)
    mechanism = release.manifest.mechanism_values[0]
    for number, table in enumerate(mechanism.tables, start=1):
        for method in ("inverse", "em"):
            answer = release.count(by="job", where=f"sub_table = {number}", method=method)
            outside = ~np.isin(np.arange(VALUES), table.codes)
            assert (answer.value[outside] == 0).all()
            assert (answer.standard_error[outside] == 0).all()


def test_estimates_of_every_kind_add_up(tmp_path: Path) -> None:
    release = released(workers(), policy(), folder=tmp_path / "r", shuffle=False)
    for method in ("inverse", "projected", "em"):
        answer = release.count(by="job", method=method)
        assert answer.value.sum() == pytest.approx(4000)
        assert method == "inverse" or (answer.value >= 0).all()


def test_intervals_cover_and_the_plan_foretells_their_width(tmp_path: Path) -> None:
    """150 releases: every value's coverage lies where Binomial(150, 0.95) does (false alarm 1e-6 each), and the
    standard error of the plan is the spread of the estimates within 30%."""
    table = workers(3000)
    opened, made = planned(table, policy())
    assert len(made.figures.mechanism.tables) > 1
    estimates, errors = [], []
    for seed in range(150):
        release = publish(opened, made, tmp_path / f"r{seed}", key=SecretKey.from_seed(seed))
        answer = release.count(by="job")
        estimates.append(answer.value)
        errors.append(answer.standard_error)
    hits = (np.abs(np.array(estimates) - made.figures.counts) <= 1.959964 * np.array(errors)).sum(axis=0)
    low, high = binom.ppf([ALARM / 2, 1 - ALARM / 2], 150, 0.95)
    assert (hits >= low).all()
    assert (hits <= high).all()
    assert made.figures.standard_error is not None
    assert np.allclose(np.std(estimates, axis=0), made.figures.standard_error, rtol=0.3)
    assert np.abs(np.mean(estimates, axis=0) - made.figures.counts).max() < 6 * made.figures.standard_error.max() / 12


def test_a_compound_is_dealt_by_its_combinations(tmp_path: Path) -> None:
    """Two sensitive columns: the margins of the estimate are the estimates of the margins, with their own variance."""
    table = workers(5000).append_column("grade", pa.array([f"g{k % 3}" for k in range(5000)]))
    both = policy(rho=("1/15", "1/3"), more='[columns.grade]\nrole = "sensitive"')
    release = released(table, both, folder=tmp_path / "r", shuffle=False)
    assert release.manifest.mechanisms[0].sub_table_column == "sub_table"
    joint = release.count(by=["job", "grade"])
    assert len(joint.value) == VALUES * 3
    margin = release.count(by="grade")
    assert np.allclose(joint.value.reshape(VALUES, 3).sum(axis=0), margin.value)
    assert np.allclose(margin.standard_error**2, dense_margin(release), rtol=1e-8)


def dense_margin(release: Release) -> Any:
    """Return the variance of the grade counts: the weights of the inverse summed over a grade's combinations."""
    mechanism = release.manifest.mechanism_values[0]
    rows = pq.read_table(release.data, columns=["job", "grade", "sub_table"]).to_pylist()
    variance = np.zeros(3)
    for number, table in enumerate(mechanism.tables, start=1):
        grades = np.array([int(mechanism.domain.values[c][1][1]) for c in table.codes.tolist()])  # type: ignore[index]
        seen = Counter(mechanism.domain.index[row["job"], row["grade"]] for row in rows if row["sub_table"] == number)
        observed = np.array([seen[code] for code in table.codes.tolist()], dtype=float)
        inverse = np.linalg.inv(table.matrix.dense())
        for grade in range(3):
            weights = inverse[grades == grade].sum(axis=0)
            floored = floored_counts(observed, table.matrix.dense())
            variance[grade] += weights**2 @ floored - weights @ floored
    return variance


def test_one_sub_table_that_lacks_a_declared_value_is_published(tmp_path: Path) -> None:
    """What a second release would tell is told of the values that the sub-table has."""
    table = pa.table({"x": [f"x{k % 7}" for k in range(300)], "s": [["a", "b", "c"][k * k % 3] for k in range(300)]})
    policy = make_policy(
        {"x": "other", "s": "sensitive; domain = ['a', 'b', 'c', 'd']"}, "rho1 = 0.7\nrho2 = 0.9", "small-domain"
    )
    release = released(table, policy, folder=tmp_path / "r")
    assert release.manifest.mechanisms[0].sub_table_column is None
    assert "in two with this matrix" in release.manifest.second_release
