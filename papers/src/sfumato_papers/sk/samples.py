"""SK section 6.1: samples of Adult, occupation sensitive. Figs. 4-7."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sfumato.values.randomness import simulation
from sfumato_papers.charts import Chart, Point
from sfumato_papers.data import Named
from sfumato_papers.experiment import BY_DESIGN, Comparison, Outcome, Setting, number, sentence
from sfumato_papers.sk.rates import (
    EXPECTED,
    INSTANCES,
    ROTATION,
    SAFE,
    SUPPRESS_ALL,
    UNSAFE,
    Rates,
    Samples,
    drawing,
    farthest,
    rates,
    seen,
)
from sfumato_papers.sk.violating import LEAST, of_size

SENSITIVE = "occupation"
ATTRIBUTES = (
    "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country",
)  # fmt: skip
SHARES = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02)
"""p, the sizes of samples. The paper's axis is lost; it names 0.5%."""
SHARE = 0.005
ELLS = (4, 5, 6, 7, 8)
ELL = 6
PAPER_SAMPLES = 100
FEWEST = 10
"""Violating samples that a statement about ratios is made of."""
SHOWN_RANKS = 16


def _counted(named: Named, attribute: str = SENSITIVE) -> list[int]:
    counts = [entry["counts"] for entry in named.table[attribute].value_counts().to_pylist()]
    return sorted(counts, reverse=True)


# --- Fig. 4 ---------------------------------------------------------------------------------------------------------


def attributes(setting: Setting) -> Outcome:
    """How often the values of each attribute occur."""
    named = setting.data.adult_train()
    counts = {name: _counted(named, name) for name in ATTRIBUTES}
    shares = {name: [count / named.table.num_rows for count in of] for name, of in counts.items()}
    occupation = shares[SENSITIVE]
    least = min(shares, key=lambda name: shares[name][0])
    largest = ", ".join(f"{name} {of[0]:.1%}" for name, of in shares.items())
    comparisons = (
        number("records without missing values", "30,162", named.table.num_rows, because=BY_DESIGN),
        number("values of Occupation", "14", len(occupation), because=BY_DESIGN),
        number("most frequent occupation, in %", "13.4", 100 * occupation[0], because=BY_DESIGN),
        sentence(
            "Fig. 4: the least skewed attribute",
            "it is Occupation (read as: its most frequent value has the smallest share)",
            f"{largest}",
            least == SENSITIVE,
        ),
        sentence(
            "Adult as a whole",
            f"no violation of {ELL}-eligibility",
            f"{occupation[0]:.1%} is at most 1/{ELL}",
            occupation[0] * ELL <= 1,
        ),
    )
    rows = [
        {"attribute": name, "rank": rank, "records": counts[name][rank - 1], "share": share}
        for name, of in shares.items()
        for rank, share in enumerate(of, 1)
    ]
    age = max(_counted(named, "age")) / named.table.num_rows
    return Outcome(
        comparisons,
        tuple(rows),
        Chart(
            f"Share of the values of eight attributes by their rank, up to rank {SHOWN_RANKS}. Of the most frequent "
            f"values: {largest}; of rank 6 of occupation: {occupation[5]:.1%}.",
            "rank of the value",
            "share of the records",
            tuple(Point(r["attribute"], float(r["rank"]), r["share"]) for r in rows if r["rank"] <= SHOWN_RANKS),
            logarithmic=True,
        ),
        named.about,
        notes=(
            f"Of the categorical attributes. The most frequent age has {age:.1%}: by this measure a number with many "
            "values is less skewed.",
        ),
    )


# --- Fig. 5 ---------------------------------------------------------------------------------------------------------


def violations(setting: Setting) -> Outcome:
    """How many samples violate l-eligibility, exactly."""
    named = setting.data.adult_train()
    counts = _counted(named)
    sizes = {p: int(p * sum(counts)) for p in SHARES}
    violating = {(p, ell): of_size(counts, sizes[p], ell) for p in SHARES for ell in ELLS}
    at, whole = violating[SHARE, ELL], counts[0] / sum(counts)
    error = 100 * (at * (1 - at) / PAPER_SAMPLES) ** 0.5
    able = [ell for ell in ELLS if whole * ell <= 1]
    by_ell = {ell: [violating[p, ell] for p in SHARES] for ell in ELLS}
    comparisons = (
        number("records in a sample of 0.5%", "150", sizes[SHARE], because=BY_DESIGN),
        number(
            "p = 0.5%, l = 6: violating samples, in %",
            "40",
            100 * at,
            noise=2 * error,
            because=f"ours is exact; the paper's {PAPER_SAMPLES} samples have a standard error of {error:.1f}",
        ),
        sentence(
            "Fig. 5: the size of samples",
            "for each l, smaller samples violate more often (read as: for each l where the whole table does not)",
            _told({f"l = {ell}": by_ell[ell] for ell in able}),
            all(a > b or max(a, b) < LEAST for ell in able for a, b in pairwise(by_ell[ell])),
        ),
        sentence(
            "Fig. 5: l",
            "for each size, a larger l leads to more violations",
            _told({f"p = {p:.2%}": [violating[p, ell] for ell in ELLS] for p in (SHARES[0], SHARE, SHARES[-1])}),
            all(violating[p, b] > violating[p, a] for p in SHARES for a, b in pairwise(ELLS)),
        ),
    )
    points = [Point(f"l = {ell}", 100 * p, 100 * violating[p, ell]) for ell in ELLS for p in SHARES]
    return Outcome(
        comparisons,
        tuple({"p": p, "l": ell, "violating": share} for (p, ell), share in violating.items()),
        Chart(
            f"Violating samples by the size of samples, from {SHARES[0]:.2%} to {SHARES[-1]:.0%} of the table: "
            + "; ".join(f"{of[0]:.1%} to {of[-1]:.1%} with l = {ell}" for ell, of in by_ell.items())
            + ".",
            "size of samples, % of the table",
            "violating samples, %",
            tuple(points),
        ),
        named.about,
        notes=tuple(
            f"With l = {ell} the whole table violates, as its largest share is {whole:.1%}; of samples by their size: "
            f"{', '.join(f'{share:.2%}' for share in by_ell[ell])}."
            for ell in ELLS
            if ell not in able
        ),
    )


def _samples(setting: Setting, named: Named, shares: Sequence[float], repeated: int) -> Iterator[Samples]:
    """Yield samples of each size, drawn without replacement."""
    draw, counts = simulation(setting.seed), _counted(named)
    for share in shares:
        yield draw.multivariate_hypergeometric(counts, int(share * sum(counts)), repeated)


def _told(series: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(f"{name}: {', '.join(f'{value:.1%}' for value in values)}" for name, values in series.items())


# --- Figs. 6 and 7 --------------------------------------------------------------------------------------------------


def by_size(setting: Setting) -> Outcome:
    """Suppression rates by the size of samples."""
    named, repeated, instances = setting.data.adult_train(), *_repetitions(setting)
    draw, found = drawing(setting.seed), {}
    for share, samples in zip(SHARES, _samples(setting, named, SHARES, repeated), strict=True):
        found[100 * share] = rates(samples, ELL, instances, draw)
        setting.progress(len(found) / len(SHARES))
    at = found[100 * SHARE]
    comparisons = (
        *_at_the_example(at),
        *_everywhere("Fig. 6", tuple(found.values())),
        _quickly("Fig. 6: a smaller p", {1 / x: of for x, of in reversed(found.items())}),
    )
    return _outcome(comparisons, found, ("p", "size of samples, % of the table"), named, repeated, instances)


def by_ell(setting: Setting) -> Outcome:
    """Suppression rates by l."""
    named, repeated, instances = setting.data.adult_train(), *_repetitions(setting)
    (samples,) = _samples(setting, named, (SHARE,), repeated)
    draw, found = drawing(setting.seed), {}
    for ell in ELLS:
        found[float(ell)] = rates(samples, ell, instances, draw)
        setting.progress(len(found) / len(ELLS))
    comparisons = (*_everywhere("Fig. 7", tuple(found.values())), _quickly("Fig. 7: a larger l", found))
    return _outcome(comparisons, found, ("l", "parameter l"), named, repeated, instances)


def _repetitions(setting: Setting) -> tuple[int, int]:
    """Samples of each size, and instances of R-suppression for each sample."""
    return (400, 10) if setting.quick else (1_000, 100)


def _measured(what: str, says: str, ours: str, holds: bool, certain: str, proved: str = "") -> Comparison:
    """Compare a statement with means over samples, which are so certain."""
    return sentence(what, says, ours, holds, proved=proved, because=certain, noise=certain)


def _quickly(what: str, found: Mapping[float, Rates]) -> Comparison:
    """Whether Safe D, of which it is said, rises from step to step, and in all faster than 1/p or l."""
    some = [(x, of) for x, of in found.items() if of.violating >= FEWEST]
    steps = [_growth(before, after) for (_, before), (_, after) in pairwise(some)]
    (x, first), (y, last) = some[0], some[-1]
    growth, error = _growth(first, last)
    return _measured(
        what,
        "suppression goes up quickly (read as: that of Safe D at every step, and in all more than in proportion)",
        _told({name: [of.mean[name] for of in found.values()] for name in (SAFE, EXPECTED, UNSAFE)}),
        all(step > 1 - 2 * off for step, off in steps) and growth - 2 * error > y / x,
        f"where at least {FEWEST} samples violate it grows {', '.join(f'{step:.2f}' for step, _ in steps)} times, in "
        f"all {growth:.1f} times with a standard error of {error:.1f}; {y / x:.1f} would be in proportion",
    )


def _growth(before: Rates, after: Rates) -> tuple[float, float]:
    """By which factor Safe D grows, and its standard error."""
    growth = after.mean[SAFE] / before.mean[SAFE]
    return growth, growth * sum((of.error[SAFE] / of.mean[SAFE]) ** 2 for of in (before, after)) ** 0.5


def _at_the_example(at: Rates) -> Iterator[Comparison]:
    """p = 0.5%, l = 6. The paper's figures are means over 100 samples: they have a standard error, as ours have."""
    both = (at.samples / PAPER_SAMPLES + 1) ** 0.5
    instances = f"; mean of the instances {at.mean[INSTANCES]:.2%}"
    for name, what, says, limit, side, also in (
        (EXPECTED, "R-sup", "less than 3% of the records on the average", 0.03, -1, instances),
        (SAFE, "Safe D", "more than 10% of the records on the average", 0.10, 1, ""),
    ):
        error = at.error[name] * both
        short = side * (limit - at.mean[name]) / error
        yield _measured(
            f"p = 0.5%, l = 6: {what}",
            says,
            f"{at.mean[name]:.2%}{also}",
            short <= 2,
            f"{'beyond' if short > 0 else 'inside'} the limit by {abs(short):.1f} times {error:.2%}, the standard "
            f"error of the difference from a mean over {PAPER_SAMPLES} samples",
            f"rotation {at.mean[ROTATION]:.2%}",
        )
    yield _together(at)
    gap = at.mean[EXPECTED] - at.mean[UNSAFE]
    yield _measured(
        "p = 0.5%, l = 6: R-sup and Unsafe D",
        "nearly identical (read as: less than one percent of the records apart, as the paper gives whole percents)",
        f"{at.mean[EXPECTED]:.2%} and {at.mean[UNSAFE]:.2%}, {gap:.2%} of the records apart",
        gap < 0.01,
        f"standard error {at.error[EXPECTED]:.2%}, {at.samples} samples",
    )


def _together(at: Rates) -> Comparison:
    """Both figures are of the same samples, so that their ratio is much less uncertain than each."""
    (ratio, spread), (least, _) = at.ratio(EXPECTED), at.ratio(UNSAFE)
    error = spread * (1 / PAPER_SAMPLES + 1 / at.samples) ** 0.5
    return sentence(
        "p = 0.5%, l = 6: R-sup and Safe D on the same samples",
        "less than 3% and more than 10%",
        f"R-sup is {ratio:.1%} of Safe D; both statements together make it less than {3 / 10:.0%}",
        ratio - 0.3 <= 2 * error,
        because=f"the ratio of two means over {PAPER_SAMPLES} samples has a standard error of {error:.1%}; even Unsafe "
        f"D, which is the least, is {least:.1%} of Safe D. What the paper did otherwise is not known",
        noise=f"standard error {error:.1%}",
    )


def _everywhere(figure: str, found: Sequence[Rates]) -> Iterator[Comparison]:
    some = [of for of in found if of.violating >= FEWEST]
    noise = f"means over {found[0].samples} samples each; settings with at least {FEWEST} violating samples"
    more, remote = [of.ratio(EXPECTED, UNSAFE)[0] - 1 for of in some], [of.remoteness for of in some]
    yield _measured(
        f"{figure}: R-sup and Unsafe D",
        "a little more everywhere (read as: at most a quarter as far from Unsafe D as from Safe D)",
        f"{min(remote):.0%} to {max(remote):.0%} as far, in {len(some)} settings; {min(more):.0%} to {max(more):.0%} "
        "more than Unsafe D",
        max(remote) <= 0.25,
        noise,
    )
    shares = [of.ratio(EXPECTED)[0] for of in some]
    errors = [of.ratio(EXPECTED)[1] / of.samples**0.5 for of in some]
    proved = [of.ratio(ROTATION)[0] for of in some]
    yield _measured(
        f"{figure}: R-sup and Safe D",
        "R-sup suppresses much less (read as: at most half)",
        f"{min(shares):.0%} to {max(shares):.0%} of what Safe D does",
        all(share <= 0.5 + 2 * error for share, error in zip(shares, errors, strict=True)),
        f"{noise}; standard errors of up to {max(errors):.1%}",
        f"rotation {min(proved):.0%} to {max(proved):.0%}",
    )
    factors = [of.mean[SUPPRESS_ALL] / of.mean[SAFE] for of in some]
    yield _measured(
        f"{figure}: Suppress-All",
        "far worse than all others (read as: it suppresses at least twice as much)",
        f"{min(factors):.1f} to {max(factors):.1f} times what Safe D suppresses, the most of the others",
        min(factors) >= 2 and all(of.mean[SAFE] >= of.mean[name] for of in some for name in (EXPECTED, UNSAFE)),
        noise,
    )


def _outcome(
    comparisons: Sequence[Comparison],
    found: Mapping[float, Rates],
    x: tuple[str, str],
    named: Named,
    repeated: int,
    instances: int,
) -> Outcome:
    column, title = x
    points = tuple(point for at, of in found.items() for point in of.points(at))
    return Outcome(
        tuple(comparisons),
        tuple(of.row(**{column: at}) for at, of in found.items()),
        Chart(seen(found, title), title, "mean suppression rate", points),
        named.about,
        repeated,
        (f"{instances} instances of R-suppression for each violating sample. {farthest(found.values())}",),
    )
