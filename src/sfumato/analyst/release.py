"""What an analyst opens: a release that answers. Opening, verifying and counting need nothing private.

What does the work is loaded when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.analyst.counting.counts import CountedRelease
from sfumato.release.folder import read_groups, read_manifest, read_rows
from sfumato.show.results import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.analyst.answer import Answer, Estimator, Target
    from sfumato.analyst.associations import Comparison
    from sfumato.analyst.power import Power
    from sfumato.analyst.regression.answer import Regression
    from sfumato.analyst.regression.result import Intervals, Method
    from sfumato.analyst.stratified import Standard
    from sfumato.analyst.tables import JointTable
    from sfumato.analyst.two_way import Normaliser
    from sfumato.release.verify.verification import Verification
    from sfumato.values.arrays import Progress


def open_release(folder: str | Path, spark: SparkSession | None = None) -> Release:
    """Open a release folder. Its manifest must be of this version; nothing else is checked (`Release.verify` does).

    With a Spark session all counting is done there, and only the correction here; its workers need sfumato, and must
    see the folder under the same path.
    """
    return Release(Path(folder), read_manifest(Path(folder)), spark)


@dataclass(frozen=True, repr=False)
class Release(CountedRelease, Result):
    """A published table and its manifest, to be asked. Make one with `open_release`."""

    def to_arrow(self) -> Any:
        """Return the published rows as an Arrow table."""
        return read_rows(self)

    def _shown(self) -> Any:
        """Return its columns: the rows may be many millions."""
        import pyarrow as pa

        columns = self.manifest.columns
        kinds = {"column": [column.name for column in columns], "type": [column.type for column in columns]}
        return pa.table({**kinds, "randomized": [column.name in self.manifest.domain.names for column in columns]})

    def __repr__(self) -> str:
        data = self.manifest.data
        return f"Release({str(self.folder)!r}, {self.manifest.method}, {data.rows:,} rows)"

    def groups_to_arrow(self) -> Any:
        """Return the values of each group as an Arrow table; the release must be one by groups."""
        return read_groups(self)

    def count(
        self,
        by: str | Sequence[str] = (),
        where: str = "",
        *,
        method: Estimator = "inverse",
        target: Target = "table",
        level: float = 0.95,
    ) -> Answer:
        """Return estimated counts with standard errors and intervals: see `sfumato.analyst.count`."""
        from sfumato.analyst.count import count

        return count(self, by, where, method=method, target=target, level=level)

    def sql(
        self,
        query: str,
        *,
        weight: str = "",
        method: Estimator = "inverse",
        target: Target = "table",
        level: float = 0.95,
    ) -> Answer:
        """Answer one SELECT over the table `release`, with standard errors and intervals.

        COUNT(*), SUM(x), AVG(x) of a numeric column, randomized or not, quotients of counts and sums, and shares,
        COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY ...), several in a query; QUANTILE(x, 0.9) and MEDIAN(x) of a
        randomized column; any WHERE over untouched and randomized columns; GROUP BY with CUBE, ROLLUP and GROUPING
        SETS; ORDER BY; LIMIT. `weight` names a column of survey weights.
        Everything else is refused by name. `method`: "classical" for that estimate of a release by groups.
        """
        from sfumato.analyst.sql import sql

        return sql(self, query, weight=weight, method=method, target=target, level=level)

    def distribution(
        self,
        column: str,
        by: str | Sequence[str] = (),
        where: str = "",
        *,
        weight: str = "",
        target: Target = "table",
        level: float = 0.95,
    ) -> Answer:
        """Return the share of the records at or below each value of a randomized column, with pointwise intervals.

        Its values must be numbers or bins, or in an order that the policy declares. `by` and `where` may name any
        columns; `weight` names a column of survey weights.
        """
        from sfumato.analyst.distribution import distribution

        return distribution(self, column, by, where, weight=weight, target=target, level=level)

    def table(
        self,
        columns: str | Sequence[str],
        where: str = "",
        *,
        method: Estimator = "inverse",
        target: Target = "table",
        level: float = 0.95,
    ) -> JointTable:
        """Return the estimated joint table of some columns, an array with one axis for each, with its covariance."""
        from sfumato.analyst.tables import table

        return table(self, columns, where, method=method, target=target, level=level)

    def association(
        self,
        first: str,
        second: str,
        where: str = "",
        *,
        target: Target = "table",
        level: float = 0.95,
        normaliser: Normaliser = "second",
    ) -> Comparison:
        """Return uncertainty coefficient, Cramer's V and a test of independence of two columns, with naive figures.

        The uncertainty coefficient is AD Eq. (12): divided by the entropy of the second column, or of the first.
        """
        from sfumato.analyst.associations import association

        return association(self, first, second, where, target=target, level=level, normaliser=normaliser)

    def risks(
        self,
        exposed: str,
        outcome: str,
        where: str = "",
        *,
        strata: str | Sequence[str] = (),
        standard: Standard = "all",
        weight: str = "",
        cluster: str = "",
        survey_strata: str = "",
        target: Target = "table",
        level: float = 0.95,
    ) -> Comparison:
        """Return risk difference, risk ratio, odds ratio and the two risks; both conditions may be on any columns.

        With `strata` (columns, randomized or not) measures are pooled over them as Mantel and Haenszel do, and risks
        are standardised to the strata of `all` records, of the `exposed` or of the `others`. `weight` names survey
        weights; `cluster`, for the population, a column whose rows were sampled together, and `survey_strata` one in
        whose values the records, or clusters, were drawn. Records for which a condition is unknown (a missing value)
        are left out.
        """
        from sfumato.analyst.risks import Design, risks

        design = Design.of(strata, standard, weight, cluster, survey_strata)
        return risks(self, exposed, outcome, where, design, target=target, level=level)

    def regress(
        self,
        formula: str,
        family: str = "logistic",
        *,
        where: str = "",
        weights: str = "",
        offset: str = "",
        cluster: str = "",
        survey_strata: str = "",
        method: Method = "inverse",
        target: Target = "table",
        level: float = 0.95,
        interval: Intervals | None = None,
        progress: Progress | None = None,
    ) -> Regression:
        """Fit a model, corrected for the noise: `regress("diagnosis == 'diabetes' ~ age + C(region) * sex")`.

        The outcome, covariates, or both may be randomized, or dealt to groups. `family`: logistic, multinomial, linear
        or poisson. Formulas: `sfumato.analyst.regression.formula`. `where` is a condition on any columns; `weights`
        names a column of survey weights, `cluster` one that tells which rows belong together (persons), `survey_strata`
        one inside whose values the rows, or clusters, were drawn (both matter for the target "population"); `offset` is
        an expression that is added to the linear predictor. `method`: "likelihood" for randomized outcomes alone.
        `interval`: "score", or "wald" (estimate and standard errors); None: score where that does not take long.
        """
        from sfumato.analyst.regression.regress import regress

        return regress(
            self, formula, family, where=where, weights=weights, offset=offset, cluster=cluster,
            survey_strata=survey_strata, method=method, target=target, level=level, interval=interval,
            progress=progress,
        )  # fmt: skip

    def power(
        self,
        by: str | Sequence[str] = (),
        where: str = "",
        *,
        share: float | None = None,
        width: float | None = None,
        target: Target = "table",
        level: float = 0.95,
        chance: float = 0.8,
    ) -> Power:
        """Return what to expect of counts before they are asked: see `sfumato.analyst.power`."""
        from sfumato.analyst.power import power

        return power(self, by, where, share=share, width=width, target=target, level=level, chance=chance)

    def verify(self, certificate: str | Path | None = None, *, signer: str | Path | None = None) -> Verification:
        """Check all that the release alone proves, and a certificate of it: see `sfumato.release.verify`.

        `signer` is the publisher's public key: then the release must be signed with the private one.
        """
        from sfumato.release.certificate import load_certificate
        from sfumato.release.signature import PublicKey
        from sfumato.release.verify.verification import verify

        return verify(
            self,
            None if certificate is None else load_certificate(certificate),
            None if signer is None else PublicKey.load(signer),
        )
