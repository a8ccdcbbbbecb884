"""A method's releases, made in a temporary folder, measured, and thrown away."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.compare.guessing import Guessed, guess, guess_classes
from sfumato.auditor.compare.original import Original
from sfumato.auditor.compare.promised import Promised, promised
from sfumato.auditor.compare.queries import Kept, Pool, kept, of_independence, of_joint, of_release
from sfumato.auditor.compare.translating import GENERALIZATION, Translated
from sfumato.methods import plan
from sfumato.methods.generalization import Generalization, Hierarchy, generalize
from sfumato.methods.plan import AnyPlan
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, profile
from sfumato.values.arrays import FloatArray
from sfumato.values.randomness import SecretKey


@dataclass(frozen=True)
class Trial:
    """One release of a method, measured."""

    guessed: Guessed
    kept: Kept
    published_share: float
    plan_seconds: float
    publish_seconds: float
    promised: Promised | None = None  # of the first release


@dataclass(frozen=True, eq=False)
class Bench:
    """The table, the questions and the keys: alike for all methods, so that one measurement can be repeated."""

    original: Original
    pool: Pool
    keys: tuple[SecretKey, ...]  # one for each release of a method
    counting: SecretKey  # draws the rows that are counted, where one of each person is published
    hierarchies: Mapping[str, Hierarchy]

    def trials(self, translated: Translated) -> list[Trial]:
        """Make and measure the releases of a method; raise what it raises if it does not fit the table."""
        if translated.name == GENERALIZATION:
            return [self._generalized(translated.requirement["l"])]
        return [self._measured(*made, number == 0) for number, made in enumerate(self._made(translated))]

    def first(self) -> Bench:
        """Return the bench for one release of each method, the first one."""
        return replace(self, keys=self.keys[:1])

    def risk(self, translated: Translated) -> float:
        """Return the mean success of the guesser alone, over the same releases as `trials`."""
        if translated.name == GENERALIZATION:
            return guess_classes(self._classes(self._general(translated.requirement["l"]))).success
        return float(np.mean([self._guessed(table, release).success for table, release, *_ in self._made(translated)]))

    def _made(self, translated: Translated) -> Iterator[tuple[Table, Release, float, float]]:
        """Yield each release, with the seconds of planning and of publishing; it is gone when the next one is made."""
        policy = translated.policy(self.original.table.policy)
        table = self.original.table.under(policy)
        made: AnyPlan | None = None
        for key in self.keys:
            start = perf_counter()
            if made is None or policy.method.draws_plan:
                made = plan(profile(table, key=self.counting), policy.method, policy.requirement, key=key)
                planned = perf_counter() - start
            with tempfile.TemporaryDirectory(prefix="sfumato-compare-") as folder:
                start = perf_counter()
                release = publish(table, made, Path(folder) / "release", key=key)
                yield table, release, planned, perf_counter() - start

    def _guessed(self, table: Table, release: Release) -> Guessed:
        return guess(self.original.evidence(table, release), self.original, of_release(self.original, release))

    def _measured(self, table: Table, release: Release, planned: float, published: float, first: bool) -> Trial:
        estimates, evidence = of_release(self.original, release), self.original.evidence(table, release)
        return Trial(
            guessed=guess(evidence, self.original, estimates),
            kept=kept(self.original, self.pool, estimates),
            published_share=release.manifest.data.rows / self.original.rows,
            plan_seconds=planned,
            publish_seconds=published,
            promised=promised(evidence) if first else None,
        )

    # --- full-domain generalization, which is a baseline and publishes no release -------------------------------------

    def _generalized(self, asked: float) -> Trial:
        start = perf_counter()
        found = self._general(asked)
        seconds = perf_counter() - start
        names = (*self.original.quasi_identifiers, *self.original.sensitive)
        joint = found.estimate().reshape(self.original.shape(names))
        measured = kept(self.original, self.pool, of_joint(self.original, joint))
        return Trial(guess_classes(self._classes(found)), measured, 1.0, seconds, math.nan)

    def _general(self, asked: float) -> Generalization:
        original = self.original
        names = original.quasi_identifiers
        counts = original.counts((*names, *original.sensitive))
        ways = [self._hierarchy(name, original.labels(name)) for name in names]
        return generalize(counts.reshape(*original.shape(names), -1), ways, asked)

    def _hierarchy(self, name: str, labels: tuple[str, ...]) -> Hierarchy:
        """Return a column's hierarchy; without one it is kept as it is, or left out."""
        return self.hierarchies.get(name) or Hierarchy(name, (labels, ("*",) * len(labels)))

    def _classes(self, found: Generalization) -> FloatArray:
        return found.table.reshape(-1, self.original.values)

    # --- what methods are measured by ---------------------------------------------------------------------------------

    def independence(self) -> Trial:
        """Return the table without any association: true shares for everybody."""
        nothing = guess_classes(self.original.shares[None, :] * self.original.rows)
        measured = kept(self.original, self.pool, of_independence(self.original))
        return Trial(nothing, measured, 0.0, math.nan, math.nan)

    def plain(self) -> Trial:
        """Return the table as it is."""
        original = self.original
        guessed = guess_classes(original.together().astype(np.float64))
        return Trial(guessed, kept(original, self.pool, original.counts), 1.0, math.nan, math.nan)
