"""The bench: releases of every method, made in a temporary folder, measured alike, and thrown away.

Nothing is done twice: the table is counted once for all methods that count the same of it, methods that publish the
same under their options are planned once, and releases with the same rows and the same matrices, drawn with the same
key, are measured once.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from sfumato.auditor.attackers import ATTACKERS
from sfumato.auditor.compare.figures import Keeps, Promised, Trial
from sfumato.auditor.compare.guessing import Guessed, guess, guess_classes
from sfumato.auditor.compare.original import Kept, Original, Pool, kept, of_independence, of_joint, of_release
from sfumato.auditor.compare.translating import Translated
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.methods import Method, named, plan
from sfumato.methods.generalization import Generalization, Hierarchy, generalize
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, profile, read_off
from sfumato.release.manifest import Manifest
from sfumato.show.words import many
from sfumato.values.computed import Facts
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey

Tell = Callable[[str, float], None]
MOST_WALKED = 20_000_000_000
"""Cells that planning walks over, at most, of a method that nobody asked for by name: half a minute, about."""
SECONDS_OF_RELEASE, SECONDS_OF_ROW, SECONDS_OF_CELL = 0.2, 3e-6, 4e-10
"""Of a release, for each row (of 50 values), and for each cell that planning walks over; a guesser walks as far."""


@dataclass(frozen=True, eq=False)
class Bench:
    """The table, the questions and the keys: alike for all methods, so that one measurement can be repeated."""

    original: Original
    pool: Pool
    keys: tuple[SecretKey, ...]  # one for each release of a method
    counting: SecretKey  # draws the rows that are counted, where one of each person is published
    hierarchies: Mapping[str, Hierarchy]
    chosen: frozenset[str] = frozenset()  # the methods that were asked for by name; none: all that can be compared
    profiles: dict[tuple[tuple[str, ...], Facts], Profile] = field(default_factory=dict)  # by what is counted
    by_options: dict[str, list[Trial]] = field(default_factory=dict)  # by what decides what a method publishes
    by_content: dict[str, tuple[Guessed, Kept]] = field(default_factory=dict)  # by what analysts and guessers see

    def is_chosen(self, translated: Translated) -> bool:
        return not self.chosen or translated.kind in self.chosen

    def unfit(self, translated: Translated) -> str:
        """Return in a line why a method is not for the table's values, or not tried unless it is asked for."""
        if translated.is_baseline or translated.own:
            return ""
        method = named(translated.method["name"])
        if method.unfit(self.original.domain) or translated.kind in self.chosen:
            return method.unfit(self.original.domain)
        return method.left_out or self._too_long(method)

    def _too_long(self, method: type[Method]) -> str:
        """Return why a method would keep all others waiting: by the size of the table, so alike on every machine."""
        original, walked = self.original, self._walked_to_plan(method)
        if walked <= MOST_WALKED:
            return ""
        cells = math.prod(original.shape((*original.quasi_identifiers, *original.sensitive)))
        return (
            f"Left out, as it would take too long: the quasi-identifiers and {' / '.join(original.sensitive)} have "
            f"{many(cells)} combinations, and planning walks over all of them about {many(round(walked / cells))} "
            f"times. Compare it alone: --method {method.name}. Or bin the columns."
        )

    def _walked_to_plan(self, method: type[Method]) -> int:
        original = self.original
        return method.walked_to_plan((*original.shape(original.quasi_identifiers), original.values))

    def trials(self, translated: Translated, tell: Tell = lambda what, part: None) -> list[Trial]:
        """Make and measure the releases of a method; raise what it raises if it does not fit the table.

        `tell` is told what is being done, and which part of it was done before.
        """
        if translated.is_baseline:
            return [self._generalized(translated.requirement["l"])]
        policy = translated.policy(self.original.table.policy)
        options = _deciding(policy)
        if options not in self.by_options:
            self.by_options[options] = list(self._all_measured(policy, tell))
        return self.by_options[options]

    def _all_measured(self, policy: Policy, tell: Tell) -> Iterator[Trial]:
        tell("planning", 0)
        with closing(self._made(policy)) as made:  # a release is gone at once if measuring it is interrupted
            for number, each in enumerate(made):
                tell(f"release {number + 1} of {len(self.keys)}", number / len(self.keys))
                yield self._measured(*each, number == 0)

    def seconds(self, translated: Translated) -> float:
        """Return about how long the releases of a method take, counted in rows, values and cells: roughly."""
        original, releases = self.original, len(self.keys)
        if translated.is_baseline:
            return 1.0
        each = SECONDS_OF_RELEASE + SECONDS_OF_ROW * original.rows * (1 + original.values / 50)
        walk = SECONDS_OF_CELL * self._walked_to_plan(named(translated.method["name"]))
        return walk + releases * (each + walk)

    def risk(self, translated: Translated) -> float:
        """Return the success of the guesser alone, on the first release."""
        if translated.is_baseline:
            return self._classes_guessed(self._general(translated.requirement["l"])).success
        with closing(self._made(translated.policy(self.original.table.policy))) as made:
            evidence, *_ = next(made)
            return guess(evidence, self.original, of_release(self.original, evidence.release)).success

    def _made(self, policy: Policy) -> Generator[tuple[Evidence, float, float]]:
        """Yield each release, with the seconds of planning and of publishing; it is gone when the next one is made."""
        table = self.original.table.under(policy)
        counted, made = self._counted(table), None
        for key in self.keys:
            start = perf_counter()
            if made is None or policy.method.draws_plan:
                made = plan(counted, policy.method, policy.requirement, key=key)
                planned = perf_counter() - start
            with tempfile.TemporaryDirectory(prefix="sfumato-compare-") as folder:
                start = perf_counter()
                release = publish(table, made, Path(folder) / "release", key=key)
                seconds = perf_counter() - start
                yield self.original.evidence(table, release, counted), planned, seconds

    def _counted(self, table: Table) -> Profile:
        """Count the table once for all methods that count the same of it."""
        asked = (table.policy.linked, read_off(table.policy))
        if asked not in self.profiles:
            self.profiles[asked] = profile(table, key=self.counting)
        return self.profiles[asked]

    def _measured(self, evidence: Evidence, planned: float, published: float, first: bool) -> Trial:
        seen = _seen(evidence.release.manifest)
        if seen not in self.by_content:
            estimates = of_release(self.original, evidence.release)
            guessed = guess(evidence, self.original, estimates)
            self.by_content[seen] = guessed, kept(self.original, self.pool, estimates)
        guessed, errors = self.by_content[seen]
        return Trial(
            guessed=guessed,
            kept=errors,
            published_share=evidence.release.manifest.data.rows / self.original.rows,
            plan_seconds=planned,
            publish_seconds=published,
            promised=promised(evidence) if first else None,
            strength=evidence.release.manifest.guarantee.strength,
            keeps=_keeps(evidence.release.manifest),
        )

    # --- full-domain generalization, which is a baseline and publishes no release -------------------------------------

    def _generalized(self, asked: float) -> Trial:
        start = perf_counter()
        found = self._general(asked)
        seconds = perf_counter() - start
        names = (*self.original.quasi_identifiers, *self.original.sensitive)
        joint = found.estimate().reshape(self.original.shape(names))
        measured = kept(self.original, self.pool, of_joint(self.original, joint))
        guessed = self._classes_guessed(found)
        return Trial(guessed, measured, 1.0, seconds, math.nan, keeps="coarser quasi-identifiers")

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
        nothing = guess_classes(self.original.shares[None, :] * self.original.rows)
        measured = kept(self.original, self.pool, of_independence(self.original))
        return Trial(nothing, measured, 0.0, math.nan, math.nan)

    def plain(self) -> Trial:
        original = self.original
        guessed = guess_classes(original.together().astype(np.float64))
        return Trial(guessed, kept(original, self.pool, original.counts), 1.0, math.nan, math.nan)


def _deciding(policy: Policy) -> str:
    """Return what decides what is published under a policy: methods by other options may publish the same."""
    method = policy.method.released_as().model_dump(mode="json")
    required = [(name, rule.model_dump(mode="json")) for name, rule in policy.own_requirements]
    return json.dumps([method, required], sort_keys=True)


def _keeps(manifest: Manifest) -> Keeps:
    """Return what a release has of values and of other columns."""
    randomized = {part.name for mechanism in manifest.mechanisms for part in mechanism.domain}
    if manifest.in_buckets:
        return "true values in groups"
    if manifest.response is not None:
        both = randomized & set(manifest.response.sensitive)
        return "randomized quasi-identifiers and values" if both else "randomized quasi-identifiers"
    is_set = any(mechanism.form != "value" for mechanism in manifest.mechanisms)
    return "sets of values" if is_set else "randomized values"


UNSEEN = {"rho1", "near", "claimed", "minimum_sub_table", "epsilon"}
"""What is promised of a mechanism: no estimate and no guess depends on it."""


def _seen(manifest: Manifest) -> str:
    """Return what analysts and guessers see of a release: the rows, the groups, and how values were randomized."""
    groups, columns = manifest.groups, [column.model_dump(mode="json") for column in manifest.columns]
    parts = [
        part.model_dump(
            mode="json", exclude={**dict.fromkeys(UNSEEN, True), "sub_tables": {"__all__": {"bounds", "sets"}}}
        )
        for part in manifest.mechanisms
    ]
    dealt = None if groups is None else (groups.sha256, groups.dealt_within)
    return json.dumps([manifest.kind, manifest.data.sha256, columns, parts, dealt])


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
            if attack := attacker.kept(evidence.kind):
                yield from attack(evidence)
        except DoesNotApply:
            continue
