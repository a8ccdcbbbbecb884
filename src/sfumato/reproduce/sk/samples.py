"""SK section 6.1: samples of Adult, occupation sensitive. Figs. 4-7."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sfumato.randomness import simulation
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.data import Named
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato.reproduce.sk.rates import (
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
    is_near,
    rates,
    simulated,
)

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
SHOWN_RANKS = 16
GENERATED = "the table is generated"


def _counted(named: Named, attribute: str = SENSITIVE) -> list[int]:
    counts = [entry["counts"] for entry in named.table[attribute].value_counts().to_pylist()]
    return sorted(counts, reverse=True)


def _on(named: Named, comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """Return the comparisons; on a generated table nothing of Adult is confirmed."""
    if named.is_original:
        return tuple(comparisons)
    return tuple(replace(c, verdict="differs", because=GENERATED) for c in comparisons)


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
        number("records without missing values", "30,162", named.table.num_rows, because=GENERATED),
        number("values of Occupation", "14", len(occupation), because=GENERATED),
        number("most frequent occupation, in %", "13.4", 100 * occupation[0], because=GENERATED),
        sentence(
            "Fig. 4: the least skewed attribute",
            "it is Occupation",
            f"largest shares: {largest}",
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
        _on(named, comparisons),
        tuple(rows),
        Chart(
            "Share of the values of eight attributes by their rank, up to rank 16. The most frequent value of race and "
            "native country has about nine tenths of the records; occupation starts lowest, at 13%, and falls slowly "
            "over its first six values.",
            "rank of the value",
            "share of the records",
            tuple(Point(r["attribute"], float(r["rank"]), r["share"]) for r in rows if r["rank"] <= SHOWN_RANKS),
            logarithmic=True,
        ),
        named.about,
        notes=(f"Of the categorical attributes. The most frequent age has {age:.1%}.",),
    )


# --- Fig. 5 ---------------------------------------------------------------------------------------------------------


def violations(setting: Setting) -> Outcome:
    """How many samples violate l-eligibility."""
    named, repeated = setting.data.adult_train(), 2_000 if setting.quick else 20_000
    found = dict(zip(SHARES, _samples(setting, named, SHARES, repeated), strict=True))
    violating = {(p, ell): float(violate(found[p], ell).mean()) for p in SHARES for ell in ELLS}
    at = violating[SHARE, ELL]
    noise = 200 * (at * (1 - at) * (1 / PAPER_SAMPLES + 1 / repeated)) ** 0.5
    whole = _counted(named)[0] / named.table.num_rows
    certain = f"100 samples have a standard error of {noise / 2:.1f}"
    comparisons = (
        number("records in a sample of 0.5%", "150", int(found[SHARE][0].sum()), because=GENERATED),
        simulated(
            number("p = 0.5%, l = 6: violating samples, in %", "40", 100 * at, noise=noise, because=certain),
            certain,
        ),
        sentence(
            "Fig. 5: the size of samples",
            "for each l, smaller samples violate more often (wherever the whole table does not)",
            _told({f"l = {ell}": [violating[p, ell] for p in SHARES] for ell in ELLS}),
            all(_never_rises([violating[p, ell] for p in SHARES], repeated) for ell in ELLS if whole * ell <= 1),
            noise=f"{repeated:,} samples of each size, two standard errors",
        ),
        sentence(
            "Fig. 5: l",
            "for each size, a larger l leads to more violations",
            f"p = 0.5%: {_told({'l = 4 to 8': [violating[SHARE, ell] for ell in ELLS]})}",
            all(violating[p, a] <= violating[p, b] for p in SHARES for a, b in pairwise(ELLS)),
        ),
        sentence(
            "Section 6.1: samples of a table without violation",
            "samples violate although the whole table does not",
            f"{at:.0%} of the samples, while the largest share of the table is {whole:.1%}",
            at > 0 and whole * ELL <= 1,
            noise=f"{repeated:,} samples",
        ),
    )
    points = [Point(f"l = {ell}", 100 * p, 100 * violating[p, ell]) for ell in ELLS for p in SHARES]
    return Outcome(
        _on(named, comparisons),
        tuple({"p": p, "l": ell, "violating": share} for (p, ell), share in violating.items()),
        Chart(
            "Violating samples in percent by the size of samples, one line for each l. All fall with the size, except "
            "for l = 8, where nearly all samples violate; with l = 6 and half a percent about a third do.",
            "size of samples, % of the table",
            "violating samples, %",
            tuple(points),
        ),
        named.about,
        repeated,
    )


def _samples(setting: Setting, named: Named, shares: Sequence[float], repeated: int) -> Iterator[Samples]:
    """Yield samples of each size, drawn without replacement."""
    draw, counts = simulation(setting.seed), _counted(named)
    for share in shares:
        yield draw.multivariate_hypergeometric(counts, int(share * sum(counts)), repeated)


def violate(samples: Samples, ell: int) -> npt.NDArray[np.bool_]:
    """Whether each sample has a value with more than 1/l of its records."""
    return np.asarray(ell * samples.max(axis=1) > samples.sum(axis=1))


def _never_rises(shares: Sequence[float], repeated: int) -> bool:
    """Whether shares fall, up to two standard errors of a difference."""
    return all(
        following - share <= 2 * ((share * (1 - share) + following * (1 - following)) / repeated) ** 0.5
        for share, following in pairwise(shares)
    )


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
    trend = sentence(
        "Fig. 6: smaller samples",
        "suppression goes up quickly",
        _told({name: [of.mean[name] for of in found.values()] for name in (SAFE, EXPECTED, UNSAFE)}),
        all(_rises(b, a) for a, b in pairwise(found.values())),
        noise=_noise(at, SAFE),
    )
    comparisons = (*_at_the_example(at), *_everywhere("Fig. 6", tuple(found.values())), trend)
    alt = (
        "Mean suppression rate by the size of samples. Suppress-All is far above the others; Safe D is more than twice "
        "R-suppression, which is a little above Unsafe D; rotation lies between the two. All fall towards zero."
    )
    return _outcome(comparisons, found, ("p", "size of samples, % of the table"), alt, named, repeated, instances)


def by_ell(setting: Setting) -> Outcome:
    """Suppression rates by l."""
    named, repeated, instances = setting.data.adult_train(), *_repetitions(setting)
    (samples,) = _samples(setting, named, (SHARE,), repeated)
    draw, found = drawing(setting.seed), {}
    for ell in ELLS:
        found[float(ell)] = rates(samples, ell, instances, draw)
        setting.progress(len(found) / len(ELLS))
    trend = sentence(
        "Fig. 7: a larger l",
        "suppression goes up quickly",
        _told({name: [of.mean[name] for of in found.values()] for name in (SAFE, EXPECTED, UNSAFE)}),
        all(_rises(a, b) for a, b in pairwise(found.values())),
        noise=_noise(found[float(ELL)], SAFE),
    )
    comparisons = (*_everywhere("Fig. 7", tuple(found.values())), trend)
    alt = (
        "Mean suppression rate by l for samples of half a percent. Suppress-All rises to nearly one at l = 8. Safe D "
        "is above rotation, and that above R-suppression and Unsafe D, which lie close together; all rise with l."
    )
    return _outcome(comparisons, found, ("l", "parameter l"), alt, named, repeated, instances)


def _repetitions(setting: Setting) -> tuple[int, int]:
    """Samples of each size, and instances of R-suppression for each sample."""
    return (400, 10) if setting.quick else (1_000, 100)


def _rises(before: Rates, after: Rates) -> bool:
    """Whether all rates are higher, up to two standard errors."""
    return all(
        after.mean[name] - before.mean[name] >= -2 * (after.error[name] + before.error[name])
        for name in (SAFE, EXPECTED, UNSAFE)
    )


def _noise(found: Rates, name: str) -> str:
    return f"standard error {found.error[name]:.2%}, {found.samples} samples"


def _at_the_example(at: Rates) -> Iterator[Comparison]:
    """p = 0.5%, l = 6. The paper's figures are means over 100 samples: they have a standard error, as ours have."""
    for name, shown, says, limit, side in (
        (EXPECTED, INSTANCES, "R-sup suppresses less than 3% of each sample", 0.03, -1),
        (SAFE, SAFE, "Safe D suppresses more than 10%", 0.10, 1),
    ):
        error = at.error[name] * (at.samples / PAPER_SAMPLES + 1) ** 0.5
        yield sentence(
            f"p = 0.5%, l = 6: {name}",
            says,
            f"{at.mean[shown]:.2%}" + (f" (expected {at.mean[name]:.2%})" if shown != name else ""),
            side * (at.mean[name] - limit) >= -2 * error,
            proved=f"rotation {at.mean[ROTATION]:.2%}",
            noise=f"{error:.2%} is the standard error of the difference from a mean over {PAPER_SAMPLES} samples",
        )
    gap = at.mean[EXPECTED] - at.mean[UNSAFE]
    yield sentence(
        "p = 0.5%, l = 6: R-sup and Unsafe D",
        "nearly identical (read as: less than 1% of the records apart)",
        f"{at.mean[EXPECTED]:.2%} and {at.mean[UNSAFE]:.2%}, {gap:.2%} of the records apart",
        gap < 0.01,
        noise=_noise(at, EXPECTED),
    )


def _everywhere(figure: str, found: Sequence[Rates]) -> Iterator[Comparison]:
    some = [of for of in found if of.mean[SAFE] > 0]
    noise = f"means over {found[0].samples} samples each"
    apart = max(of.mean[EXPECTED] - of.mean[UNSAFE] for of in some)
    yield sentence(
        f"{figure}: R-sup and Unsafe D",
        "R-sup suppresses only slightly more everywhere (read as: it is nearer to Unsafe D than to Safe D)",
        f"{apart:.2%} of the records more at most, and nearer to Unsafe D in {sum(map(is_near, some))} of {len(some)} "
        "settings",
        all(map(is_near, some)),
        noise=noise,
    )
    shares = [of.mean[EXPECTED] / of.mean[SAFE] for of in some]
    yield sentence(
        f"{figure}: R-sup and Safe D",
        "R-sup suppresses much less (read as: less than three quarters)",
        f"{min(shares):.0%} to {max(shares):.0%} of what Safe D does",
        max(shares) < 0.75,
        proved="rotation "
        f"{min(of.mean[ROTATION] / of.mean[SAFE] for of in some):.0%} to "
        f"{max(of.mean[ROTATION] / of.mean[SAFE] for of in some):.0%}",
        noise=noise,
    )
    factors = [of.mean[SUPPRESS_ALL] / of.mean[SAFE] for of in some]
    yield sentence(
        f"{figure}: Suppress-All",
        "far worse than all others (read as: half as much again as Safe D, at least)",
        f"{min(factors):.1f} to {max(factors):.1f} times what Safe D suppresses",
        min(factors) > 1.5,
        noise=noise,
    )


def _outcome(
    comparisons: Sequence[Comparison],
    found: Mapping[float, Rates],
    x: tuple[str, str],
    alt: str,
    named: Named,
    repeated: int,
    instances: int,
) -> Outcome:
    column, title = x
    points = tuple(point for at, of in found.items() for point in of.points(at))
    return Outcome(
        _on(named, comparisons),
        tuple(of.row(**{column: at}) for at, of in found.items()),
        Chart(alt, title, "mean suppression rate", points),
        named.about,
        repeated,
        (f"{instances} instances of R-suppression for each violating sample. {farthest(found.values())}",),
    )
