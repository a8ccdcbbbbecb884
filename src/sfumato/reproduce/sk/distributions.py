"""SK section 6.2: Zipf distributions, Fig. 8, and the linear ones whose figures are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato.reproduce.sk.rates import (
    EXPECTED,
    MINIMAL,
    ROTATION,
    SAFE,
    SUPPRESS_ALL,
    UNSAFE,
    Rates,
    drawing,
    farthest,
    is_near,
    rates,
)

BETA, ALPHA, ELL, VALUES = 1000, 1.0, 5, 20
ALPHAS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0)
ELLS = (4, 5, 6, 7, 8, 9, 10)
LINEAR_ELLS = (4, 6, 8, 10, 11, 12, 13, 14, 15, 16)
MOST_BETA_EFFECT = 0.01


def zipf_counts(alpha: float, beta: int = BETA) -> list[int]:
    """F_i = beta/i^alpha, rounded down."""
    return [int(beta / i**alpha) for i in range(1, VALUES + 1)]


def linear_counts() -> list[int]:
    """F_i = beta (m + 1 - i)/m: the steepest line."""
    return [BETA * (VALUES + 1 - i) // VALUES for i in range(1, VALUES + 1)]


def by_alpha(setting: Setting) -> Outcome:
    """Suppression by alpha, l = 5."""
    instances, draw = _instances(setting), drawing(setting.seed)
    found = {alpha: rates([zipf_counts(alpha)], ELL, instances, draw) for alpha in ALPHAS}
    alt = (
        "Suppression rate by alpha, with l = 5. Nothing is suppressed up to 0.75. From 0.8 on all rise: Safe D is "
        "highest, then rotation, R-suppression and Unsafe D, in this order. Suppress-All is one."
    )
    return _outcome((*_figure_8a(found), _little_impact()), found, "alpha", alt, instances)


def by_zipf_ell(setting: Setting) -> Outcome:
    """Suppression by l, alpha = 1."""
    instances, draw = _instances(setting), drawing(setting.seed)
    found = {float(ell): rates([zipf_counts(ALPHA)], ell, instances, draw) for ell in ELLS}
    alt = (
        "Suppression rate by l, with alpha = 1. Unsafe D falls from 4 to 6 and then rises; R-suppression is a little "
        "above it and rotation above that; Safe D is highest and rises throughout. Suppress-All is one."
    )
    return _outcome(tuple(_figure_8b(found)), found, "parameter l", alt, instances)


def _instances(setting: Setting) -> int:
    return 20 if setting.quick else 100


def _outcome(
    comparisons: tuple[Comparison, ...], found: Mapping[float, Rates], axis: str, alt: str, instances: int
) -> Outcome:
    points = tuple(point for x, of in found.items() for point in of.points(x))
    return Outcome(
        comparisons,
        tuple(of.row(**{axis: x}) for x, of in found.items()),
        Chart(alt, axis, "suppression rate", points),
        f"Zipf distributions of {VALUES} values, beta = {BETA:,}",
        instances,
        (farthest(found.values()),),
    )


def _figure_8a(found: Mapping[float, Rates]) -> Iterator[Comparison]:
    some = {alpha: of for alpha, of in found.items() if of.mean[SUPPRESS_ALL]}
    first = next(a / 1000 for a in range(1000) if max(zipf_counts(a / 1000)) * ELL > sum(zipf_counts(a / 1000)))
    yield number("Fig. 8 (a): the alpha below which nothing violates", "0.8", first)
    names = (SAFE, EXPECTED, UNSAFE)
    yield sentence(
        "Fig. 8 (a): larger alpha",
        "more suppression is required",
        ", ".join(f"{name} {some[min(some)].mean[name]:.1%} to {some[max(some)].mean[name]:.1%}" for name in names),
        all(a.mean[name] <= b.mean[name] for name in names for a, b in pairwise(some.values())),
    )
    yield _a_fifth_less(some)
    yield _close("Fig. 8 (a)", "alpha", some)


def _a_fifth_less(found: Mapping[float, Rates]) -> Comparison:
    """About 20% less: of the records, or of what Safe D suppresses."""
    less = {alpha: of.mean[SAFE] - of.mean[EXPECTED] for alpha, of in found.items()}
    relative = {alpha: less[alpha] / of.mean[SAFE] for alpha, of in found.items()}
    near = [alpha for alpha in found if 0.15 <= less[alpha] <= 0.25]
    steepest = max(found)
    return sentence(
        "Fig. 8 (a): R-sup and Safe D",
        "even for larger alpha, R-sup suppresses about 20% less (read as: 15% to 25% of the records)",
        f"so for alpha = {', '.join(f'{alpha:g}' for alpha in near)}; {less[steepest]:.1%} for alpha = {steepest:g}. "
        f"Relative to Safe D {min(relative.values()):.0%} to {max(relative.values()):.0%} less, the other reading",
        2 * len(near) > len(found),
        proved=f"rotation at alpha = 1: {found[1.0].mean[SAFE] - found[1.0].mean[ROTATION]:.1%} of the records less",
        because="the distance is smaller for most values of alpha",
    )


def _figure_8b(found: Mapping[float, Rates]) -> Iterator[Comparison]:
    yield _close("Fig. 8 (b)", "l", found)
    shares = [of.mean[EXPECTED] / of.mean[SAFE] for of in found.values()]
    yield sentence(
        "Fig. 8 (b): R-sup and Safe D",
        "R-sup suppresses much less (read as: less than three quarters)",
        f"{min(shares):.0%} to {max(shares):.0%} of what Safe D does",
        max(shares) < 0.75,
        because="for large l most of a Zipf table has to go either way",
    )
    unsafe = {ell: of.mean[UNSAFE] for ell, of in found.items()}
    told = ", ".join(f"{share:.1%}" for share in unsafe.values())
    yield sentence(
        "Fig. 8 (b): Unsafe D from l = 4 to 6",
        "it falls",
        f"l = 4 to 10: {told}",
        unsafe[4] >= unsafe[5] >= unsafe[6] and unsafe[4] > unsafe[6],
    )
    yield sentence(
        "Fig. 8 (b): Unsafe D from l = 6 to 10",
        "it rises",
        f"l = 4 to 10: {told}",
        all(unsafe[ell] < unsafe[ell + 1] for ell in range(6, 10)),
    )
    candidacy = [ell for ell, of in found.items() if of.mean[UNSAFE] > of.mean[MINIMAL]]
    yield sentence(
        "Fig. 8 (b): why",
        "l-candidacy decides for small l, P-eligibility from 6 on",
        f"l-candidacy decides for l = {', '.join(f'{ell:g}' for ell in candidacy)}; P-eligibility for the others",
        candidacy == [ell for ell in ELLS if ell <= max(candidacy)] and max(candidacy) <= 6,
    )


def _close(figure: str, axis: str, found: Mapping[float, Rates]) -> Comparison:
    near = [f"{x:g}" for x, of in found.items() if is_near(of)]
    return sentence(
        f"{figure}: R-sup and Unsafe D",
        "R-sup stays close to it (read as: it is nearer to it than to Safe D)",
        f"nearer to Unsafe D than to Safe D for {len(near)} of {len(found)} values of {axis}"
        + (f": {', '.join(near)}" if len(near) < len(found) else ""),
        len(near) == len(found),
        because="for the others R-sup is in the upper half between the two",
    )


def _little_impact() -> Comparison:
    """The rates with a tenth and ten times of beta."""
    draw = drawing(1)
    found = {beta: rates([zipf_counts(ALPHA, beta)], ELL, 1, draw) for beta in (BETA // 10, BETA, BETA * 10)}
    apart = max(
        abs(of.mean[name] - found[BETA].mean[name]) for of in found.values() for name in (SAFE, EXPECTED, UNSAFE)
    )
    return sentence(
        "Section 6.2: beta",
        "it has little impact on the rates (read as: less than 1%)",
        f"a tenth or ten times of it change them by {apart:.2%} at most",
        apart < MOST_BETA_EFFECT,
    )


# --- linear ---------------------------------------------------------------------------------------------------------


def linear(setting: Setting) -> Outcome:
    """Linear beside Zipf, by l."""
    instances, draw = _instances(setting), drawing(setting.seed)
    found = {
        name: {ell: rates([counts], ell, instances, draw) for ell in LINEAR_ELLS}
        for name, counts in (("linear", linear_counts()), ("Zipf", zipf_counts(ALPHA)))
    }
    line, steep = found["linear"], found["Zipf"]
    first = {name: min(ell for ell, of in by.items() if of.mean[SUPPRESS_ALL]) for name, by in found.items()}
    names = (SAFE, ROTATION, EXPECTED, UNSAFE)
    ordered = [ell for ell, of in line.items() if of.mean[UNSAFE] <= of.mean[EXPECTED] <= of.mean[SAFE]]
    comparisons = (
        sentence(
            "linear distributions: violations",
            "there are fewer than with Zipf distributions",
            f"from l = {first['linear']} on, Zipf from l = {first['Zipf']} on",
            first["linear"] > first["Zipf"],
        ),
        sentence(
            "linear distributions: suppression",
            "less is required than with Zipf distributions",
            f"Unsafe D at l = {LINEAR_ELLS[-1]}: {line[LINEAR_ELLS[-1]].mean[UNSAFE]:.1%}, Zipf "
            f"{steep[LINEAR_ELLS[-1]].mean[UNSAFE]:.1%}",
            all(line[ell].mean[name] <= steep[ell].mean[name] for ell in LINEAR_ELLS for name in names),
        ),
        sentence(
            "linear distributions: the trend",
            "similar: Unsafe D, R-sup, Safe D in this order",
            f"for {len(ordered)} of {len(line)} values of l",
            len(ordered) == len(line),
        ),
    )
    rows = [{"distribution": name, **of.row(l=ell)} for name, by in found.items() for ell, of in by.items()]
    points = [
        Point(f"{name}: {series}", float(ell), of.mean[series])
        for name, by in found.items()
        for series in (SAFE, ROTATION, EXPECTED, UNSAFE)
        for ell, of in by.items()
    ]
    return Outcome(
        comparisons,
        tuple(rows),
        Chart(
            "Suppression rate by l for a linear and a Zipf distribution. The linear one needs none up to l = 10 and "
            "rises from there; the Zipf one lies above it throughout. In both Safe D is highest and Unsafe D lowest.",
            "parameter l",
            "suppression rate",
            tuple(points),
        ),
        f"{VALUES} values with F_i = {BETA:,} ({VALUES + 1} - i)/{VALUES}, and the Zipf distribution with alpha = 1",
        instances,
        (farthest(of for by in found.values() for of in by.values()),),
    )
