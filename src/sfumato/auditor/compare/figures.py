"""What is measured of a method: on each release, and over all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sfumato.auditor.compare.guessing import Guessed
from sfumato.auditor.compare.original import Kept
from sfumato.claims.claim import Strength

Keeps = Literal[
    "randomized values",
    "sets of values",
    "true values in groups",
    "randomized quasi-identifiers",
    "randomized quasi-identifiers and values",
    "coarser quasi-identifiers",
]
"""What is published of the values, or in place of true quasi-identifiers."""


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
    guessed: Guessed
    kept: Kept
    published_share: float
    plan_seconds: float
    publish_seconds: float
    promised: Promised | None = None  # of the first release
    strength: Strength | Literal["none"] = "none"  # of its guarantee
    keeps: Keeps | Literal[""] = ""


@dataclass(frozen=True)
class Spread:
    """A figure over several releases: the mean, the least and the largest."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        return cls(math.fsum(numbers) / len(numbers), min(numbers), max(numbers))


@dataclass(frozen=True)
class Figures:
    """What was measured of a method. Shares between 0 and 1; None: it has no such figure."""

    guessed: Spread  # people guessed right
    guesser: str  # who was right most often, on the first release
    worst: float  # the largest belief in a person's true value
    median_error: Spread  # relative, of the counts of the pool
    mean_error: Spread
    sensitive_distance: float  # total variation; means over the releases
    pair_distance: float | None
    published_share: float
    plan_seconds: float | None
    publish_seconds: float | None
    promised: Promised | None = None  # its own bound, as the audit measures it on the first release
    share_error: float | None = None  # of the share of records up to a value, where values are in order
    place_error: float | None = None  # of the mean place in the order, as a part of the range
    strength: Strength | Literal["none"] | None = None  # of the guarantee; None: a record from before it was kept
    keeps: Keeps | Literal[""] = ""  # what a release has of the values and of other columns
    errors_by_columns: tuple[float | None, ...] = ()  # of counts on one quasi-identifier, on two, on three

    @property
    def of_releases(self) -> bool:
        """Whether releases were made: a baseline publishes none, bounds no belief and draws nothing."""
        return self.publish_seconds is not None

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Figures:
        guessed, kept = [t.guessed for t in trials], [t.kept for t in trials]
        return cls(
            guessed=Spread.of([g.success for g in guessed]),
            guesser=guessed[0].guesser,
            worst=max(g.worst for g in guessed),
            median_error=Spread.of([k.median_error for k in kept]),
            mean_error=Spread.of([k.mean_error for k in kept]),
            sensitive_distance=Spread.of([k.sensitive_distance for k in kept]).mean,
            pair_distance=_known(Spread.of([k.pair_distance for k in kept]).mean),
            published_share=Spread.of([t.published_share for t in trials]).mean,
            plan_seconds=_known(max(t.plan_seconds for t in trials)),
            publish_seconds=_known(Spread.of([t.publish_seconds for t in trials]).mean),
            promised=trials[0].promised,
            share_error=_known(Spread.of([k.share_error for k in kept]).mean),
            place_error=_known(Spread.of([k.place_error for k in kept]).mean),
            strength=trials[0].strength,
            keeps=trials[0].keeps,
            errors_by_columns=tuple(
                _known(math.fsum(errors) / len(errors))
                for errors in zip(*(k.errors_by_columns for k in kept), strict=True)
            ),
        )


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Outcome:
    """A method under a requirement: what was measured, or why it cannot be had."""

    method: str
    asked: str  # the requirement as the method takes it
    promise: str  # what is bounded, against whom
    own: bool  # whether it is what the policy asks for
    figures: Figures | None = None
    reason: str = ""
    bound: str = ""  # what it is asked for, for a sentence; "": a record from before that was kept
