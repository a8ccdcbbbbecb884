"""A method's releases, made in a temporary folder, measured, and thrown away."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.attackers import ATTACKERS
from sfumato.auditor.compare.guessing import Guessed, guess, guess_classes
from sfumato.auditor.compare.original import Kept, Original, Pool, kept, of_independence, of_joint, of_release
from sfumato.auditor.compare.translating import Translated
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.methods import plan
from sfumato.methods.generalization import Generalization, Hierarchy, generalize
from sfumato.methods.plan import Plan
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, profile
from sfumato.values.randomness import SecretKey


@dataclass(frozen=True)
class Promised:
    """The promise that comes nearest to its bound."""

    attacker: str
    bound: float
    worst: float
    verdict: str
    direction: str = "at most"  # or "at least": on which side of the bound `worst` must be


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
        if translated.is_baseline:
            return [self._generalized(translated.requirement["l"])]
        return [self._measured(*made, number == 0) for number, made in enumerate(self._made(translated))]

    def risk(self, translated: Translated) -> float:
        """Return the success of the guesser alone, on the first release."""
        if translated.is_baseline:
            return self._classes_guessed(self._general(translated.requirement["l"])).success
        made = self._made(translated)  # held until the end: the release is gone with it
        table, release, *_ = next(made)
        estimates = of_release(self.original, release)
        return guess(self.original.evidence(table, release), self.original, estimates).success

    def _made(self, translated: Translated) -> Iterator[tuple[Table, Release, float, float]]:
        """Yield each release, with the seconds of planning and of publishing; it is gone when the next one is made."""
        policy = translated.policy(self.original.table.policy)
        table = self.original.table.under(policy)
        made: Plan | None = None
        for key in self.keys:
            start = perf_counter()
            if made is None or policy.method.draws_plan:
                made = plan(profile(table, key=self.counting), policy.method, policy.requirement, key=key)
                planned = perf_counter() - start
            with tempfile.TemporaryDirectory(prefix="sfumato-compare-") as folder:
                start = perf_counter()
                release = publish(table, made, Path(folder) / "release", key=key)
                yield table, release, planned, perf_counter() - start

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
        return Trial(self._classes_guessed(found), measured, 1.0, seconds, math.nan)

    def _general(self, asked: float) -> Generalization:
        """Generalize; a column without a hierarchy is kept as it is, or left out."""
        original = self.original
        names = original.quasi_identifiers
        counts = original.counts((*names, *original.sensitive))
        whole = {name: Hierarchy(name, (labels := original.labels(name), ("*",) * len(labels))) for name in names}
        ways = [self.hierarchies.get(name, whole[name]) for name in names]
        return generalize(counts.reshape(*original.shape(names), -1), ways, asked)

    def _classes_guessed(self, found: Generalization) -> Guessed:
        return guess_classes(found.table.reshape(-1, self.original.values))

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


def promised(evidence: Evidence) -> Promised | None:
    """Return the worst of the attackers whom the guarantee is about; None where the audit has no such attacker."""
    found = [finding for finding in _findings(evidence) if finding.promised is not None]
    if not found:
        return None
    worst = max(found, key=lambda finding: (round(finding.excess, 9), finding.worst))
    assert worst.promised is not None
    risk, bound = (worst.worst, worst.promised) if worst.nearest is None else (worst.nearest.risk, worst.nearest.bound)
    return Promised(worst.attacker, bound, risk, worst.verdict, worst.direction)


def _findings(evidence: Evidence) -> Iterator[Finding]:
    for attacker in ATTACKERS:
        try:
            if attack := attacker.promised.get(evidence.kind):
                yield from attack(evidence)
        except DoesNotApply:
            continue
