"""Risks compared, asked of a release: in all records, or in strata, with survey weights, clusters and survey strata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.analyst.answer import Key, Target, check_target
from sfumato.analyst.ask.cells import Cells, Estimates, Place, Question, Source, cells_of
from sfumato.analyst.ask.conditions import Condition, column_names, not_too_deep, split_condition
from sfumato.analyst.ask.measure import check_weight, check_weights
from sfumato.analyst.ask.survey import SurveyStrata, check_survey_strata, survey_strata
from sfumato.analyst.ask.where import no_column, parsed
from sfumato.analyst.associations import CLASSICAL, UNCORRECTED, Comparison, notes_of
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT, Rows, Truths
from sfumato.analyst.randomized.figures import hidden_columns, source_of
from sfumato.analyst.stratified import STANDARDS, Standard, Strata
from sfumato.analyst.two_by_two import Strength, two_by_two, two_risks
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types
from sfumato.values.arrays import FloatArray, IntArray

MOST_NUMBERS = 4_000
"""Counts in strata whose covariances are held: 128 MB."""
MOST_OF_CLUSTERS = 20_000_000
"""Counts by cluster and stratum that are held: 160 MB."""
UNKNOWN = 0.5
"""The truth of a condition on a missing value."""


@dataclass(frozen=True)
class Design:
    """In which strata risks are compared, what they are standardised to, survey weights, and who was drawn together."""

    strata: tuple[str, ...] = ()
    standard: Standard = "all"
    weight: str = ""
    cluster: str = ""
    survey_strata: str = ""

    @classmethod
    def of(
        cls, strata: str | Sequence[str], standard: Standard, weight: str, cluster: str, survey_strata: str
    ) -> Design:
        """Return a design whose strata may be one column."""
        return cls((strata,) if isinstance(strata, str) else tuple(strata), standard, weight, cluster, survey_strata)

    def check(self, release: CountedRelease, target: Target) -> None:
        """Raise unless strata, weight and cluster can be what they are said to be."""
        types, hidden = manifest_types(release), tuple(hidden_columns(release))
        for name in (*self.strata, *([self.cluster] if self.cluster else [])):
            if name not in types:
                raise no_column(name, types)
        if len(set(self.strata)) < len(self.strata):
            raise UsageError("A column is named more than once in --strata.", "Name each once.")
        if self.standard not in STANDARDS:
            raise UsageError(
                f"Risks are standardised to {', '.join(STANDARDS)}, not to {self.standard!r}.",
                "`all` gives the exposed and the others the strata of all records.",
            )
        check_weight(release, self.weight, types, hidden)
        if self.cluster:
            self._check_cluster(release, hidden)
        if self.survey_strata:
            check_survey_strata(release, self.survey_strata)
        if (self.cluster or self.survey_strata) and target != "population":
            raise UsageError(
                "Clusters and survey strata matter for conclusions about a population; given the table only the noise "
                "is random.",
                "Ask with --target population, or leave --cluster and --survey-strata away.",
            )

    def _check_cluster(self, release: CountedRelease, hidden: Sequence[str]) -> None:
        if self.cluster in hidden:
            raise UsageError(
                f"{self.cluster!r} is randomized: it does not tell which rows belong together.", "Name another column."
            )
        if release.manifest.in_buckets:
            raise UsageError(
                "Records of a release by groups were dealt together: errors by cluster are not known there.",
                "Leave --cluster away; the errors are then those of independent records.",
            )


@not_too_deep
def risks(
    release: CountedRelease,
    exposed: str,
    outcome: str,
    where: str = "",
    design: Design = Design(),
    *,
    target: Target = "table",
    level: float = 0.95,
) -> Comparison:
    """Compare the risk of an outcome between the records that satisfy a condition and the others: `Release.risks`."""
    check_target(target, level)
    design.check(release, target)
    asked = _Asked.of(release, exposed, outcome, where, design, target)
    measures = asked.measures(level)
    strata = f", in strata of {', '.join(design.strata)}" if design.strata else ""
    by_groups = release.manifest.in_buckets
    said = (*notes_of(measures), *(asked.figures.notes() if by_groups else ()), *asked.source.notes(asked.question))
    naive = CLASSICAL if by_groups else UNCORRECTED
    what = f"{outcome} where {exposed}, against all others{strata}"
    return Comparison(what, measures, None, target, level, said, naive)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The four counts of every stratum, as they are estimated."""

    question: Question
    source: Source
    place: Place
    figures: Estimates
    design: Design

    @classmethod
    def of(
        cls, release: CountedRelease, exposed: str, outcome: str, where: str, design: Design, target: Target
    ) -> _Asked:
        trees = [_tree(release, text, name) for text, name in ((where, ""), (exposed, "exposed"), (outcome, "outcome"))]
        names = frozenset(design.strata).union(*map(column_names, trees))
        source = source_of(release, names)
        conditions = _Conditions(
            split_condition(release, trees[0], source.domain),
            *(split_condition(release, tree, source.domain, selects=False) for tree in trees[1:]),
        )
        condition = replace(conditions.joined, columns=names)
        check_weights(release, design.weight, condition.rows)
        by, strata = design.strata, cells_of(source.domain, design.strata)
        question = Question(
            release, by, (by,), condition, (COUNT,), (COUNT * COUNT,), design.weight, target, by_value=True
        )
        source.require_inverse(question, by)
        figures = source.figures(question, by, conditions.place_in(strata), 4 * strata.size)
        numbers = figures.tally.groups * figures.size
        if numbers > MOST_NUMBERS:
            raise UsageError(
                f"The strata have {numbers:,} counts, and their covariances are needed; {MOST_NUMBERS:,} are possible.",
                "Use fewer or coarser strata.",
            )
        return cls(question, source, conditions.place_in(strata), figures, design)

    def measures(self, level: float) -> tuple[Strength, ...]:
        """Return what compares the risks."""
        figures, covariance = self.figures, self._covariance()
        counts, published = (each.reshape(-1, 4) for each in (figures.total(COUNT), figures.published()))
        if not self.design.strata:
            given = (counts.reshape(2, 2), covariance, published.reshape(2, 2), level)
            return (*two_by_two(*given), *two_risks(*given))
        noise = _blocks(figures.joint_covariance(COUNT, "table"))
        return Strata(counts, covariance, noise, published).measures(level, self.design.standard)

    def _covariance(self) -> FloatArray:
        """Return the covariance of all counts.

        Where whole clusters are drawn from the population, it is

            G/(G-1) sum_g (T_g - mean T)(T_g - mean T)',    T_g the estimated counts of cluster g, G clusters

        and with survey strata the same within each: `sfumato.analyst.ask.survey`.
        """
        design = self.design
        if not design.cluster and not design.survey_strata:
            return self.figures.joint_covariance(COUNT, self.question.target)
        survey = None
        if design.survey_strata:
            rows = self.question.condition.rows
            survey = survey_strata(self.question.release, design.survey_strata, design.cluster, rows)
        if not design.cluster:
            assert survey is not None
            return self._of_records(survey)
        return self._of_clusters(survey)

    def _apart(self, *columns: str) -> Estimates:
        """Return the counts by further columns."""
        by = tuple(dict.fromkeys((*self.design.strata, *columns)))
        return self.source.figures(replace(self.question, by=by, sets=(by,)), by, self.place, self.figures.size)

    def _of_clusters(self, survey: SurveyStrata | None) -> FloatArray:
        apart = self._apart(*([survey.column] if survey else []), self.design.cluster)
        keys = {key.name: key for key in apart.tally.keys}
        unit, strata = keys[self.design.cluster].codes, self.figures.tally.groups
        stratum = np.zeros_like(unit) if survey is None else _survey_codes(survey, keys)
        units, unit = np.unique(np.stack([stratum, unit]), axis=1, return_inverse=True)
        clusters = units.shape[1]
        if clusters * self.figures.size * strata > MOST_OF_CLUSTERS:
            raise UsageError(f"{clusters:,} clusters in {strata:,} strata are too many to hold.", "Use fewer strata.")
        added = np.zeros((clusters, strata, self.figures.size))
        np.add.at(added, (unit.reshape(-1), _same_groups(self.figures.tally, keys)), apart.total(COUNT))
        drawn = np.array([max(clusters, 2)], dtype=np.float64) if survey is None else survey.units
        each = added.reshape(clusters, -1)
        totals = np.zeros((drawn.size, each.shape[1]))
        np.add.at(totals, units[0], each)
        factor, taken = (drawn / (drawn - 1))[units[0]], totals / np.sqrt(drawn - 1)[:, None]
        return np.asarray(each.T @ (each * factor[:, None]) - taken.T @ taken)

    def _of_records(self, survey: SurveyStrata) -> FloatArray:
        """Return the covariance where records were drawn within survey strata: products of the same stratum remain.

        Over all n rows the covariance is n/(n - 1) (M - S S'/n), which gives M, the sum of a record's products.
        """
        apart = self._apart(survey.column)
        keys = {key.name: key for key in apart.tally.keys}
        group, stratum = _same_groups(self.figures.tally, keys), _survey_codes(survey, keys)
        size, groups, n = self.figures.size, self.figures.tally.groups, apart.rows
        if apart.tally.groups * size > MOST_NUMBERS:
            raise UsageError(
                f"The strata and survey strata together have {apart.tally.groups * size:,} counts, and their "
                f"covariances are needed; {MOST_NUMBERS:,} are possible.",
                "Use fewer or coarser strata, or name clusters, too.",
            )
        total, covariance = apart.total(COUNT), apart.joint_covariance(COUNT, "population")
        products = covariance * (n - 1) / n + np.outer(total.ravel(), total.ravel()) / n
        found = np.zeros((groups * size, groups * size))
        for h, (units, factor) in enumerate(zip(survey.units, survey.factor, strict=True)):
            own = np.flatnonzero(stratum == h)
            places, cells = (
                (each[own][:, None] * size + np.arange(size)).ravel() for each in (group, np.arange(len(total)))
            )
            sums = total.ravel()[cells]
            within = factor * (products[np.ix_(cells, cells)] - np.outer(sums, sums) / units)
            np.add.at(found, (places[:, None], places), within)
        return found


def _blocks(covariance: FloatArray) -> FloatArray:
    """Return the covariances inside each stratum, [strata, 4, 4]."""
    strata = len(covariance) // 4
    apart = covariance.reshape(strata, 4, strata, 4)
    return apart[np.arange(strata), :, np.arange(strata), :]


def _survey_codes(survey: SurveyStrata, keys: Mapping[str, Key]) -> IntArray:
    """Return the survey stratum of each group."""
    values = keys[survey.column].column()
    return survey.codes(pa.array(["" if value is None else str(value) for value in values]))


def _same_groups(tally: Rows, keys: Mapping[str, Key]) -> IntArray:
    """Return the number of the stratum of each combination of stratum and cluster."""
    places = {values: k for k, values in enumerate(zip(*(key.column() for key in tally.keys), strict=True))}
    own = [keys[key.name].column() for key in tally.keys]
    rows = zip(*own, strict=True) if own else (() for _ in range(next(iter(keys.values())).codes.size))
    return np.array([places.get(values, 0) for values in rows], dtype=np.int64)


@dataclass(frozen=True)
class _Conditions:
    """Who is asked, who is exposed, and the outcome; the atoms of all three stand one after the other."""

    where: Condition
    exposed: Condition
    outcome: Condition

    @property
    def joined(self) -> Condition:
        """The selection of rows, with the atoms of all three."""
        return replace(self.where, atoms=self.where.atoms + self.exposed.atoms + self.outcome.atoms)

    def place_in(self, strata: Cells) -> Place:
        """Return what gives the cell of each value, in the strata of its hidden columns."""

        def place(pattern: Truths) -> IntArray:
            cell = self.place(pattern)
            return np.where(cell < 0, -1, 4 * strata.of_code + cell)

        return place

    def place(self, pattern: Truths) -> IntArray:
        """Return the cell of each value: exposed with the outcome, or without; not exposed likewise; -1 if unknown."""
        first, second = len(self.where.atoms), len(self.where.atoms) + len(self.exposed.atoms)
        asked = self.where.selected(pattern[:first])
        exposed, outcome = self.exposed.truth(pattern[first:second]), self.outcome.truth(pattern[second:])
        known = asked & (exposed != UNKNOWN) & (outcome != UNKNOWN)
        return np.where(known, 2 * (1 - exposed) + (1 - outcome), -1).astype(np.int64)


def _tree(release: CountedRelease, text: str, needed: str) -> exp.Expression | None:
    if not text.strip():
        if needed:
            raise UsageError(
                f"--{needed} needs a condition: who are the exposed, and what is the outcome?",
                "Or name two columns: --between sex,diagnosis",
            )
        return None
    return parsed(text, manifest_types(release))
