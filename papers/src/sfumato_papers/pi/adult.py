"""PI on Adult: r-robust groups beside Anatomy's, at the same requirement and at equal measured risk.

The sensitive column is occupation. The adversary knows the table's own shares of occupations for each signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.methods.robustness.check import exceeding, posteriors_by_group
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import Composition, compositions
from sfumato.methods.robustness.prior import Prior, count_prior
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.randomness import simulation
from sfumato.values.steps import WITHHELD
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, sentence
from sfumato_papers.pi.queries import Errors, Queries, query_errors

SENSITIVE = "occupation"
KNOWN = {"sex, race": ("sex", "race"), "education": ("education",)}
REQUIREMENTS = (2, 3, 5)
DIVERSITIES = (2, 3, 4, 5, 6, 7)
"""Adult's most frequent occupation has 13%: there is no 8-diverse grouping."""
ANATOMY, PUBLISHED, PROVED = "Anatomy", "merging, as published", "robust (proved)"
ALL_KNOWN = tuple(KNOWN)
QUICK_KNOWN, QUICK_REQUIREMENTS, QUICK_DIVERSITIES = ("education",), (2, 3), (2, 3, 5, 7)


@dataclass(frozen=True, eq=False)
class Known:
    """Codes of the records, their signatures, and what the adversary knows."""

    name: str
    values: IntArray
    cells: IntArray
    prior: Prior
    order: IntArray

    @classmethod
    def of(cls, table: Any, name: str, seed: int) -> Known:
        """Return what is known by the columns of an attribute set."""
        values, columns = codes(table, SENSITIVE), [codes(table, column) for column in KNOWN[name]]
        cells = np.unique(np.array(columns), axis=1, return_inverse=True)[1].ravel()
        return cls(name, values, cells, count_prior(cells, values), simulation(seed).permutation(values.size))

    def anatomy(self, ell: int) -> IntArray:
        """Groups of Anatomy, which looks at no other column."""
        one = np.zeros_like(self.cells)
        return group_records(one, self.values, [one], self.order, ell)

    def published(self, r: int) -> IntArray:
        """Groups merged by PI's condition (4)."""
        return merge_records(self.cells, self.values, [self.cells], self.order, r, [self.prior])

    def proved(self, r: int) -> IntArray:
        """Groups dealt inside cells, with guests where the exact posterior allows them."""
        return group_records(self.cells, self.values, [self.cells], self.order, r, [self.prior])


@dataclass(frozen=True, eq=False)
class Measured:
    """Groups: how they were made, what is inferred from them, and how well they answer queries."""

    known: str
    method: str
    parameter: int  # l of Anatomy, r of the others
    groups: int
    withheld: float  # share of the records
    frequent: float  # share of those that have the most frequent value of their signature
    worst: float  # posterior
    above: dict[int, float]  # r -> share of the records in groups with a posterior above 1/r
    guessed: float  # how often the likeliest value of a record is expected to be right
    breached: int  # groups with a posterior above 1/parameter
    errors: Errors

    @property
    def row(self) -> dict[str, Any]:
        """A line of the CSV."""
        return {
            "known": self.known,
            "method": self.method,
            "l or r": self.parameter,
            "groups": self.groups,
            "withheld": self.withheld,
            "largest posterior": self.worst,
            **{f"records above 1/{r}": share for r, share in self.above.items()},
            "guessed right": self.guessed,
            "query error": self.errors.least_squares,
            "query error, classical": self.errors.classical,
        }


def codes(table: Any, column: str) -> IntArray:
    """Return a column as codes."""
    return np.unique(np.array(table[column].to_pylist()), return_inverse=True)[1].astype(np.int64)


def adult(setting: Setting) -> Outcome:
    """Groups for two attribute sets and several r, and Anatomy's for every l."""
    named = setting.data.adult()
    queries = Queries.drawn(named.table, SENSITIVE, 10 if setting.quick else 100, setting.seed)
    names, requirements, diversities = (
        (QUICK_KNOWN, QUICK_REQUIREMENTS, QUICK_DIVERSITIES)
        if setting.quick
        else (ALL_KNOWN, REQUIREMENTS, DIVERSITIES)
    )
    knowns = [Known.of(named.table, name, setting.seed) for name in names]
    made = [
        (known, method, parameter, deal)
        for known in knowns
        for method, deal, parameters in (
            (ANATOMY, known.anatomy, diversities),
            (PUBLISHED, known.published, requirements),
            (PROVED, known.proved, requirements),
        )
        for parameter in parameters
    ]
    found = []
    for done, (known, method, parameter, deal) in enumerate(made, 1):
        found.append(measured(known, method, parameter, deal, queries))
        setting.progress(done / len(made))
    return Outcome(
        tuple(_said(found, knowns)),
        tuple(m.row for m in found),
        _chart(found),
        named.about,
        queries.number,
        tuple(_beside(found)),
    )


def measured(known: Known, method: str, parameter: int, deal: Callable[[int], IntArray], queries: Queries) -> Measured:
    """Make groups, and measure them."""
    groups = deal(parameter)
    found = compositions(groups, known.cells, known.values)
    worst, guessed = _inferred(found, known.prior)
    records = groups[groups != WITHHELD]
    beyond = {r: exceeding(found, worst, known.prior, r) for r in sorted({*REQUIREMENTS, parameter})}
    cells = np.zeros_like(known.cells) if method == ANATOMY else known.cells
    return Measured(
        known.name,
        method,
        parameter,
        len(found),
        1 - records.size / groups.size,
        _frequent(known, groups == WITHHELD),
        float(worst.max()),
        {r: float(beyond[r][records].mean()) for r in REQUIREMENTS},
        guessed,
        int(beyond[parameter].sum()),
        query_errors(queries, groups, cells, known.values),
    )


def _frequent(known: Known, chosen: npt.NDArray[np.bool_]) -> float:
    """The share of these records that have the most frequent value of their signature."""
    most = known.prior.weights.argmax(axis=1)[known.cells]
    return float((most == known.values)[chosen].mean()) if chosen.any() else 0.0


def _inferred(groups: Sequence[Composition], prior: Prior) -> tuple[FloatArray, float]:
    """Return the largest posterior of each group, and how often a record's likeliest value is expected to be right."""
    worst: dict[Composition, float] = {}
    right: dict[Composition, float] = {}
    for batch, posteriors in posteriors_by_group(groups, prior):
        largest = posteriors.max(axis=2)  # (group, signature)
        worst |= zip(batch, largest.max(axis=1).tolist(), strict=True)
        right |= {group: float(np.dot(group.sizes, best)) for group, best in zip(batch, largest, strict=True)}
    guessed = sum(right[group] for group in groups) / sum(group.size for group in groups)
    return np.array([worst[group] for group in groups]), guessed


# --- what the paper says --------------------------------------------------------------------------------------------


def _one(measured: Sequence[Measured], known: str, method: str, parameter: int) -> Measured:
    return next(m for m in measured if (m.known, m.method, m.parameter) == (known, method, parameter))


def _of(measured: Sequence[Measured], method: str) -> list[Measured]:
    return [m for m in measured if m.method == method]


def _said(measured: Sequence[Measured], knowns: Sequence[Known]) -> Iterator[Comparison]:
    diverse = {(m.known, m.parameter): m.above[m.parameter] for m in _of(measured, ANATOMY) if m.parameter in m.above}
    yield sentence(
        "Section I: r-diverse groups, where shares are known",
        "the limit 1/r is exceeded",
        "records in groups above 1/r: " + "; ".join(f"{share:.0%} ({k}, r = {r})" for (k, r), share in diverse.items()),
        min(diverse.values()) > 0,
        proved=f"robust groups: {max(m.above[m.parameter] for m in _of(measured, PROVED)):.0%}",
    )
    yield _unique(measured, knowns[0])
    merged = _of(measured, PUBLISHED)
    breached = [m for m in merged if m.breached]
    worst = max(breached, key=lambda m: m.worst * m.parameter, default=merged[0])
    yield sentence(
        "Theorem 1 on Adult: groups merged until they meet (4)",
        "no posterior is above 1/r",
        "; ".join(f"{m.breached} of {m.groups:,} groups are above 1/{m.parameter} ({m.known})" for m in merged)
        + f"; the largest is {worst.worst:.4f} for r = {worst.parameter}",
        not breached,
        proved=f"robust groups: {sum(m.breached for m in _of(measured, PROVED))}",
        because="(4) does not bound posteriors by 1/r where there are several values (Theorem 1)",
    )
    left = ", ".join(f"{m.withheld:.1%} ({m.known}, r = {m.parameter})" for m in merged)
    yield sentence(
        "Section IV: merging until every group meets (4)",
        "it ends with every tuple in a group",
        f"left in no group: {left}",
        all(m.withheld == 0 for m in merged),
        proved="robust groups: " + ", ".join(f"{m.withheld:.1%}" for m in _of(measured, PROVED)),
        because="of the records left so many have the most frequent occupation of their signature: "
        + ", ".join(f"{m.frequent:.0%} ({m.known}, r = {m.parameter})" for m in merged if m.withheld)
        + ". The paper leaves open which groups to merge; that another choice leaves fewer was not ruled out",
    )
    yield _smaller_groups([m for m in _of(measured, ANATOMY) if m.known == knowns[-1].name])


def _smaller_groups(curve: Sequence[Measured]) -> Comparison:
    """Anatomy's groups have l records, or a few more."""
    errors, (first, *_, last) = [m.errors.smaller for m in curve], curve
    rise = last.errors.better - first.errors.better
    certain = (
        f"one deal for each l; from l = {first.parameter} to {last.parameter} the error rises by {rise.mean():.1%}, "
        f"with a standard error of {rise.std() / rise.size**0.5:.1%} over {rise.size} queries"
    )
    return sentence(
        "Section IV: smaller groups",
        "they tend to lose less information (read as: the smallest least and the largest most)",
        "mean query error of Anatomy: " + ", ".join(f"{m.errors.smaller:.1%} (l = {m.parameter})" for m in curve),
        min(errors) == errors[0] and max(errors) == errors[-1] and bool(rise.mean() > 2 * rise.std() / rise.size**0.5),
        because=certain,
        noise=certain,
    )


def _unique(measured: Sequence[Measured], known: Known) -> Comparison:
    most = int(np.bincount(known.values).max())
    largest = known.values.size // most
    tried = [m for m in _of(measured, ANATOMY) if m.known == known.name and m.parameter <= largest]
    able = [
        m.parameter
        for m in tried
        if m.withheld == 0 and _most_in_a_group(known.anatomy(m.parameter), known.values) == 1
    ]
    return sentence(
        "Section IV: every value once in a group",
        "easily satisfied where no frequency is high",
        f"the largest share is {most / known.values.size:.1%}; Anatomy deals all records so for l = "
        f"{', '.join(map(str, able))}, as it is made to where no share is above 1/l",
        able == [m.parameter for m in tried],
    )


def _most_in_a_group(groups: IntArray, values: IntArray) -> int:
    return int(np.unique(groups * (values.max() + 1) + values, return_counts=True)[1].max())


# --- beside Anatomy -------------------------------------------------------------------------------------------------


def _beside(measured: Sequence[Measured]) -> Iterator[str]:
    """The competitor at the same requirement, and at equal measured risk."""
    yield (
        "The paper announces a measurement of query accuracy and prints none. Errors here are the mean relative errors "
        "of random counts, by least squares on the groups' compositions or by the classical estimate, whichever is "
        "better on the average, which an analyst cannot know; the CSV has both."
    )
    for ours in _of(measured, PROVED):
        known, r = ours.known, ours.parameter
        curve = [m for m in _of(measured, ANATOMY) if m.known == known]
        same = _one(measured, known, ANATOMY, r)
        yield (
            f"{known} known, r = {r}: robust groups answer queries with an error of {ours.errors.smaller:.1%}, "
            f"Anatomy with l = {r} of {same.errors.smaller:.1%}, while a record is guessed right by "
            f"{ours.guessed:.1%} and {same.guessed:.1%}. {_at_equal_risk(ours, curve)}"
        )


def _at_equal_risk(ours: Measured, curve: Sequence[Measured]) -> str:
    """Anatomy's error at the l, between two whole ones, where as many records are guessed right."""
    guessed, errors = [m.guessed for m in curve], [m.errors.smaller for m in curve]
    if ours.guessed < min(guessed):
        return f"No l up to {curve[-1].parameter} brings Anatomy's guesses down so far."
    if ours.guessed > max(guessed):
        return f"Anatomy's guesses are below that for every l from {curve[0].parameter} on."
    ell = float(np.interp(ours.guessed, guessed[::-1], [m.parameter for m in curve][::-1]))
    error = float(np.interp(ours.guessed, guessed[::-1], errors[::-1]))
    after = next(m for m in curve if m.parameter >= ell)
    return (
        f"Anatomy is guessed as often at l = {ell:.1f}, where its error is {error:.1%}; with l = {after.parameter} it "
        f"has {after.above[ours.parameter]:.0%} of the records in groups with a posterior above 1/{ours.parameter}."
    )


def _seen(measured: Sequence[Measured]) -> Iterator[str]:
    """What the chart shows, series by series: its ends."""
    for known, method in dict.fromkeys((m.known, m.method) for m in measured):
        first, *_, last = (m for m in measured if (m.known, m.method) == (known, method))
        yield f"{method} ({known}): " + " and ".join(
            f"{m.errors.smaller:.1%} at {m.guessed:.0%} with {m.parameter}" for m in (first, last)
        )


def _chart(measured: Sequence[Measured]) -> Chart:
    points = tuple(
        Point(f"{method} ({known})", m.guessed, m.errors.smaller)
        for known in KNOWN
        for method in (ANATOMY, PUBLISHED, PROVED)
        for m in _of(measured, method)
        if m.known == known
    )
    return Chart(
        "Query error by how often a record's occupation is guessed right. " + "; ".join(_seen(measured)) + ".",
        "guessed right, by someone who knows the shares",
        "mean query error",
        points,
    )
