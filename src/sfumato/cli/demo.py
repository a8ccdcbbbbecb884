"""`sfumato demo`: the whole story on a synthetic clinic, in one folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sfumato.analyst.release import Release
from sfumato.claims.checks import Verification
from sfumato.cli.clinic import clinic
from sfumato.errors import UsageError
from sfumato.methods import plan
from sfumato.methods.plan import Plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile, scan

POLICY = """\
# What the clinic asks for. Every column has a role; nothing is guessed.
version = 1

[columns.name]
role = "identifier"            # dropped

[columns.age]
role = "quasi_identifier"      # an attacker may know it; published as it is

[columns.sex]
role = "quasi_identifier"

[columns.region]
role = "quasi_identifier"

[columns.education]
role = "other"

[columns.diagnosis]
role = "sensitive"             # randomized
domain = ["asthma", "back pain", "breast cancer", "COPD", "depression", "diabetes", "epilepsy", "HIV",
          "hypertension", "influenza", "migraine", "prostate cancer"]

[method]
name = "fine-grain"
retention_floor = 0.12         # else the optimum would give up the two most sensitive diagnoses as pure noise

# Whoever believes "this patient has x" with at most rho1 must not come to believe it with more than rho2.
[requirement]
rho1 = 0.3
rho2 = 0.7

[[requirement.values]]         # the more sensitive ones: from 10% to 25% at most
value = "HIV"
rho1 = "1/10"
rho2 = "1/4"

[[requirement.values]]
value = "depression"
rho1 = "1/10"
rho2 = "1/4"
"""


@dataclass(frozen=True)
class Question:
    """What an analyst asks, in words and as a count; and how the truth is found in the private table."""

    words: str
    diagnosis: str
    where: str
    holds: Callable[[Any, Any], Any]  # (age, sex) -> which patients are meant


QUESTIONS = (
    Question("How many patients have diabetes?", "diabetes", "", lambda age, sex: age >= 0),
    Question(
        "How many women of 60 and more have hypertension?",
        "hypertension",
        "sex = 'F' AND age >= 60",
        lambda age, sex: (sex == "F") & (age >= 60),
    ),
    Question("How many men have depression?", "depression", "sex = 'M'", lambda age, sex: sex == "M"),
)


@dataclass(frozen=True)
class Reply:
    """An answer from the release beside the truth, which only the demo knows."""

    question: str
    estimate: float
    lower: float
    upper: float
    truth: int

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.lower <= self.truth <= self.upper


@dataclass(frozen=True)
class Demo:
    """What happened."""

    folder: Path
    plan: Plan
    release: Release
    replies: tuple[Reply, ...]
    verification: Verification

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "folder": str(self.folder),
            "record_utility": self.plan.record_utility,
            "guarantee": self.plan.guarantee.sentence,
            "answers": [{**vars(reply), "covered": reply.covered} for reply in self.replies],
            "verified": self.verification.holds,
        }

    def story(self) -> str:
        """Return it in plain words."""
        manifest, checks = self.release.manifest, self.verification.checks
        card = manifest.guarantee_value.card
        held = sum(c.status == "holds" for c in checks)
        lines = [
            f"A clinic that does not exist has {manifest.data.rows:,} patients: "
            f"{self.folder / 'private' / 'clinic.parquet'}.",
            "It may publish, but nobody's diagnosis. Its policy (private/policy.toml) says how much may be learned.",
            "",
            "sfumato dropped the names and blurred each diagnosis by itself: "
            f"{self.plan.record_utility:.0%} are still true, "
            "and the release does not say which. Age, sex, region and education are as they were.",
            f"Guaranteed: {card.promise} {card.strength}",
            "",
            "An analyst who has only the release asks:",
        ]
        for reply in self.replies:
            inside = "inside the interval" if reply.covered else "outside the interval, as happens to 1 in 20"
            lines += [
                f"  {reply.question}",
                f"    {reply.estimate:,.0f}, 95% interval {reply.lower:,.0f} to {reply.upper:,.0f}  "
                f"(truth: {reply.truth:,}, {inside})",
            ]
        outcome = f"{held} checks hold, none fails" if self.verification.holds else "a check FAILS"
        lines += [
            "",
            f"sfumato verify: {outcome}; {len(checks) - held} things need an audit with the private table.",
            "",
            f"Look at {self.folder / 'release' / 'README.md'}, then ask a question of your own:",
            f"  sfumato estimate {self.folder / 'release'} --by diagnosis --where \"region = 'North'\"",
            f"  sfumato plan {self.folder / 'private' / 'clinic.parquet'} {self.folder / 'private' / 'policy.toml'}",
        ]
        return "\n".join(lines)


def run_demo(folder: Path) -> Demo:
    """Make the clinic, plan, publish, ask and verify, in a new folder."""
    if folder.exists():
        raise UsageError(f"{str(folder)!r} exists already.", "Remove it, or choose another folder with -o.")
    private = folder / "private"
    private.mkdir(parents=True)
    patients = clinic()
    pq.write_table(patients, private / "clinic.parquet")
    (private / "policy.toml").write_text(POLICY, encoding="utf-8")
    policy = Policy.load(private / "policy.toml")
    table = scan(private / "clinic.parquet", policy)
    made = plan(profile(table), policy.method, policy.requirement)
    assert isinstance(made, Plan)
    made = made.bound_to(table.hash(), policy.hash())
    (private / "plan.json").write_text(made.to_json(), encoding="utf-8")
    release = publish(table, made, folder / "release")
    replies = tuple(_asked(release, question, patients) for question in QUESTIONS)
    return Demo(folder, made, release, replies, release.verify())


def _asked(release: Release, question: Question, patients: Any) -> Reply:
    answer = release.count(by="diagnosis", where=question.where)
    row = next(r for r in answer.rows() if r["diagnosis"] == question.diagnosis)
    age, sex = patients["age"].to_numpy(), np.array(patients["sex"].to_pylist())
    meant = question.holds(age, sex) & (np.array(patients["diagnosis"].to_pylist()) == question.diagnosis)
    return Reply(question.words, row["estimate"], row["lower"], row["upper"], int(meant.sum()))
