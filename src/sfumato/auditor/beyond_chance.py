"""Counts that chance alone should explain, as a finding: the one that it explains least, beside what it allows."""

from __future__ import annotations

import numpy as np

from sfumato.auditor.finding import SHOWN, Exposed, Finding
from sfumato.values.chance import Tallies


def chance_finding(
    tallies: Tallies,
    records: int,
    level: float,
    attacker: str,
    about: str,
    question: str,
    assumption: str,
    stated_level: float,
    seen: str = "",
) -> Finding:
    """Return the finding of all counts together. `level` is their share of `stated_level`, which readers are told."""
    tails = tallies.log_tails
    beyond = tails < tallies.log_level(level)
    order = np.argsort(tails, kind="stable")[: min(SHOWN, max(1, int(beyond.sum())))].tolist()
    worst = order[0]
    return Finding(
        attacker=attacker,
        question=question,
        assumption=assumption,
        measured=(
            "the share of records in the count that chance explains least; the bound is the largest share that chance "
            f"allows, but for {stated_level:g} of all releases"
        ),
        worst=float(tallies.hits[worst] / tallies.records[worst]),
        mean=None,
        records=records,
        at_risk=records if beyond.any() else 0,
        promised=tallies.allowed(worst, level),
        baseline=float(tallies.chance[worst]),
        exposed=tuple(
            Exposed(tallies.told(k), int(tallies.records[k]), float(tallies.hits[k] / tallies.records[k]))
            for k in order
        ),
        remark=f"{int(beyond.sum()):,} of {tallies.tests:,} counts are beyond chance. {seen}".strip(),
        broken=bool(beyond.any()),
        about=about,
        scale="chance",
        who=tallies.told(worst),
    )
