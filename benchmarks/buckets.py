"""What is left of Anatomy's tables for an analyst: `SFUMATO_DATA=... python benchmarks/buckets.py` prints Markdown.

1. Coverage of 95% intervals by candidates for the variance, 500 deals each.
2. Deals compared: how well the groups' compositions tell the values apart, and what weighted least squares would add.
3. AD Table 5: the uncertainty coefficient of the classical estimate and of least squares.
4. Seconds for a million groups.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq

from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.bucket_deal import Deal as DealInBatches
from sfumato.values.bucket_deal import Runs
from sfumato_papers.two_tables import DealtTable, Fitted

ADULT = "adult_complete_45222.parquet"
CENSUS = "acs2024_census_like_500k.parquet"
TRAINING = 30_162
ORDERS, DEALS = 25, 20

Dealer = Callable[[IntArray, int, np.random.Generator], tuple[IntArray, IntArray]]


# --- deals ----------------------------------------------------------------------------------------------------------


def one_order(counts: IntArray, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return group and value of each place: values in one random order, dealt to n // size groups in turn."""
    order = rng.permutation(counts.size)
    value = np.repeat(order, counts[order])
    return np.arange(value.size) % (value.size // size), value


def batches(number: int) -> Dealer:
    """Return the dealer that takes a share of each value at a time, in a new order of the values each time."""

    def deal(counts: IntArray, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        groups, values, first = [], [], 0
        for batch in range(number):
            group, value = one_order((batch + 1) * counts // number - batch * counts // number, size, rng)
            groups.append(group + first)
            values.append(value)
            first += int(group.max()) + 1
        return np.concatenate(groups), np.concatenate(values)

    return deal


def anatomize(counts: IntArray, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return group and value of each place by Xiao and Tao's algorithm: the values with most records left first."""
    left, groups = counts.copy(), []
    while (left > 0).sum() >= size:
        groups.append(list(np.lexsort((rng.random(left.size), -left))[:size]))
        left[groups[-1]] -= 1
    for value in np.repeat(np.arange(left.size), left):
        groups[rng.choice([g for g, group in enumerate(groups) if value not in group])].append(value)
    return np.repeat(np.arange(len(groups)), [len(group) for group in groups]), np.concatenate(groups)


def shipped_deal(counts: IntArray, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return group and value of each place as they are published."""
    runs = Runs.of_table(counts, int(counts.sum()) // size)
    order = np.lexsort((rng.random(runs.batch_of_piece.size), runs.batch_of_piece))
    return DealInBatches(runs, order).runs_in(0, int(runs.groups[0]))


DEALERS: dict[str, Dealer] = {
    "one order of values": one_order,
    "5 batches": batches(5),
    "20 batches": batches(20),
    "100 batches": batches(100),
    "as published": shipped_deal,
    "Xiao and Tao's": anatomize,
}


def dealt(group: IntArray, value: IntArray, values: int) -> DealtTable:
    cell, count = np.unique(group * values + value, return_counts=True)
    return DealtTable.of(cell // values, cell % values, count, values)


def releases(
    value: IntArray, size: int, dealer: Dealer, orders: int, deals: int, rng: np.random.Generator
) -> Iterator[tuple[DealtTable, IntArray, IntArray]]:
    """Yield deal, and group and record of each place."""
    for _ in range(orders):
        group, place_value = dealer(np.bincount(value), size, rng)
        deal, places = dealt(group, place_value, int(value.max()) + 1), np.argsort(place_value, kind="stable")
        for _ in range(deals):
            shuffled, record = rng.permutation(value.size), np.empty(value.size, dtype=np.int64)
            record[places] = shuffled[np.argsort(value[shuffled].astype(np.int16), kind="stable")]
            yield deal, group, record


def columns(name: str, *names: str, rows: int | None = None) -> list[IntArray]:
    """Return codes of the columns of a real table."""
    table = pq.read_table(Path(os.environ["SFUMATO_DATA"]) / name, columns=list(names)).slice(0, rows)
    return [np.unique(np.array(table[c].to_pylist()), return_inverse=True)[1].astype(np.int64) for c in names]


def row(*cells: object) -> None:
    print("| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")


def header(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


# --- 1. coverage ----------------------------------------------------------------------------------------------------


def candidates(fit: Fitted) -> dict[str, FloatArray]:
    """Return standard errors of the count of each value: one condition, one stratum."""
    (part,), (stratum,) = fit.parts, fit.deal.strata
    a = np.concatenate([block for _, block in stratum.group_weights(np.eye(stratum.codes.size))])
    share = np.clip(part.mean[:, 0], 0, 1)
    plug_in, n = share * (1 - share), stratum.records

    def error(spread: FloatArray, sigma: FloatArray) -> FloatArray:
        return np.sqrt(np.maximum((stratum.groups * spread) @ a**2 - n * sigma, 0))

    kind, c = fit.deal.kind_of_group, stratum.counts.times(np.eye(stratum.codes.size), slice(None))
    s = np.bincount(fit.group, fit.z, fit.deal.sizes.size)
    leverage = np.minimum(stratum.counts.quadratic(stratum.inverse) / stratum.sizes, 1 - 1e-9)
    squares = np.bincount(kind, (s - (c @ part.mean[:, 0])[kind]) ** 2) / stratum.groups / (1 - leverage)
    pooled = np.full(n.size, part.residuals[0, 0] / stratum.residual_weight.sum())
    return {
        "shipped": fit.estimate().standard_error[0],
        "sandwich (HC2)": error(squares, plug_in),
        "theta (1 - theta)": error(c @ plug_in, plug_in),
        "one sigma": error(c @ pooled, pooled),
    }


def coverage(value: IntArray, z: FloatArray, size: int, dealer: Dealer) -> dict[str, FloatArray]:
    """Return the share of deals whose interval holds the truth, for each candidate and value."""
    truth = np.bincount(value, z)
    covered: dict[str, list[FloatArray]] = {}
    for deal, group, record in releases(value, size, dealer, ORDERS, DEALS, np.random.default_rng(1)):
        fit = deal.fit(group, z[record])
        estimate = fit.estimate().value[0]
        if not np.isnan(estimate).any():
            for name, error in candidates(fit).items():
                covered.setdefault(name, []).append(np.abs(estimate - truth) <= 1.959964 * error)
    return {name: np.mean(each, axis=0) for name, each in covered.items()}


def coverage_table() -> None:
    occupation, sex, education = columns(ADULT, "occupation", "sex", "education")
    census, gender = columns(CENSUS, "occupation", "gender", rows=20_000)
    cases = {
        "Adult, women": (occupation, sex == 0, (2, 5, 7)),
        "Adult, bachelors": (occupation, education == 9, (2, 5, 7)),
        "ACS, 50 values, women": (census, gender == 1, (5, 10)),
    }
    print("\n### Coverage of 95% intervals: mean over the values (worst, best)\n")
    header("table", "l", "deal", "shipped", "sandwich (HC2)", "theta (1 - theta)", "one sigma")
    for name, (value, condition, sizes) in cases.items():
        for size in sizes:
            for deal in ("one order of values", "20 batches"):
                found = coverage(value, condition.astype(np.float64), size, DEALERS[deal]).values()
                row(name, size, deal, *(f"{x.mean():.1%} ({x.min():.1%}, {x.max():.1%})" for x in found))


# --- 2. deals -------------------------------------------------------------------------------------------------------


def dense(deal: DealtTable) -> tuple[FloatArray, FloatArray]:
    """Return the composition of each kind, and how many groups there are of it."""
    (stratum,) = deal.strata
    return stratum.counts.times(np.eye(deal.values), slice(None)), stratum.groups


def generalized(deal: DealtTable, sigma: FloatArray) -> FloatArray:
    """Return the standard error of each theta under weights by the true variances, the best linear ones."""
    c, groups = dense(deal)
    gram = (c * (groups / (c @ sigma))[:, None]).T @ c
    return np.sqrt(np.maximum(np.diag(np.linalg.pinv(gram)) - sigma / (groups @ c), 0))


def shipped(deal: DealtTable, sigma: FloatArray) -> FloatArray:
    """Return the standard error of each theta under weights 1/|g|."""
    (stratum,), (c, groups) = deal.strata, dense(deal)
    a = np.concatenate([block for _, block in stratum.group_weights(np.diag(1 / stratum.records))])
    return np.sqrt(np.maximum((groups * (c @ sigma)) @ a**2 - sigma / stratum.records, 0))


def deals_table() -> None:
    occupation, sex = columns(ADULT, "occupation", "sex")
    census, gender = columns(CENSUS, "occupation", "gender", rows=100_000)
    print("\n### Deals: median over 10 deals and the values of the standard error of a share theta\n")
    header(
        "table",
        "l",
        "deal",
        "kinds",
        "least eigenvalue",
        "error of theta",
        "with the best weights",
        "deals that tell all values",
    )
    for name, value, z, sizes in ("Adult", occupation, sex, (2, 5, 7)), ("ACS", census, gender, (5, 10)):
        theta = np.bincount(value, z == z.min()) / np.bincount(value)
        for size in sizes:
            for label, dealer in DEALERS.items():
                rng, found = np.random.default_rng(2), []
                for _ in range(10):
                    deal = dealt(*dealer(np.bincount(value), size, rng), theta.size)
                    (stratum,) = deal.strata
                    told = stratum.identified(np.eye(theta.size))
                    error, best = (
                        np.median(np.where(told, e(deal, theta * (1 - theta)), np.inf)) for e in (shipped, generalized)
                    )
                    found.append((stratum.counts.rows, stratum.spectrum[0][0], error, best, told.all()))
                kinds, eigenvalue, error, best, _ = np.median(found, axis=0)
                told_deals = sum(bool(each[-1]) for each in found)
                row(name, size, label, int(kinds), f"{eigenvalue:.1e}", error, best, f"{told_deals} of {len(found)}")


# --- 3. association -------------------------------------------------------------------------------------------------


def uncertainty(joint: FloatArray) -> float:
    """AD Eq. (12), in percent."""
    p = np.maximum(joint, 0) / np.maximum(joint, 0).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.nansum(p * np.log(p / np.outer(p.sum(axis=1), p.sum(axis=0))))
        return float(-100 * information / np.nansum(p.sum(axis=0) * np.log(p.sum(axis=0))))


def association_table() -> None:
    published = {3: (0.90, 0.20, 0.25, 0.06), 4: (0.46, 0.12, 0.08, 0.02), 5: (0.26, 0.05, 0.07, 0.02)}
    value, *by = columns(ADULT, "occupation", "education", "income", "sex", "race", rows=TRAINING)
    print("\n### AD Table 5: uncertainty coefficient with occupation, x 10^-2 (Adult, 30,162 training records)\n")
    header("l", "estimate", "education", "salary", "gender", "race")
    row("", "original", *(uncertainty(np.histogram2d(z, value, bins=(z.max() + 1, 14))[0]) for z in by))
    for size, paper in published.items():
        row(size, "Anatomy in the paper", *(f"{number:.2f}" for number in paper))
        found = []
        for deal, group, record in releases(value, size, anatomize, 1, 20, np.random.default_rng(3)):
            fits = [deal.fit(group, np.ones(group.size), z[record], int(z.max()) + 1) for z in by]
            found.append([[uncertainty(e) for e in (fit.classical(np.eye(14)), fit.estimate().value)] for fit in fits])
        classical, squares = np.mean(found, axis=0).T.tolist()
        row(size, "classical", *classical)
        row(size, "least squares, negative counts set to 0", *squares)


# --- 4. size --------------------------------------------------------------------------------------------------------


def size_table(records: int = 10_000_000, values: int = 1_000, size: int = 10) -> None:
    rng = np.random.default_rng(4)
    counts = rng.multinomial(records, rng.dirichlet(np.full(values, 5.0)))
    print(f"\n### Seconds for {records:,} records, {values:,} values, {records // size:,} groups of {size}\n")
    header("deal", "kinds", "deal", "inverse", "fit, 1 column", "all values", "fit, 50 columns", "all values")
    for label in ("one order of values", "100 batches"):
        group, value = DEALERS[label](counts, size, rng)
        cell = np.unique(group * values + value)
        triples, z = (cell // values, cell % values, np.ones(cell.size, dtype=np.int64)), rng.random(group.size)
        times = [perf_counter()]
        deal = DealtTable.of(*triples, values)
        times.append(perf_counter())
        _ = deal.strata[0].inverse
        times.append(perf_counter())
        for number in (1, 50):
            fit = deal.fit(group, z, rng.integers(0, number, group.size), number)
            _ = fit.parts
            times.append(perf_counter())
            fit.estimate()
            times.append(perf_counter())
        row(label, deal.strata[0].counts.rows, *(f"{seconds:.1f}" for seconds in np.diff(times)))


if __name__ == "__main__":
    coverage_table()
    deals_table()
    association_table()
    size_table()
