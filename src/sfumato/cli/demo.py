"""`sfumato demo`: the whole story on a synthetic clinic, in one folder.

Nobody in the clinic exists. Diagnoses are skewed and depend on age and sex, as real ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from sfumato.methods import plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile, scan
from sfumato.release.verify.verification import Verification
from sfumato.show.words import of_100
from sfumato.values.randomness import simulation

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

# Someone who is at most rho1 sure that "this patient has x" must not become more than rho2 sure.
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


QUESTIONS = (
    ("How many patients have diabetes?", "diabetes", ""),
    ("How many women of 60 and more have hypertension?", "hypertension", "sex = 'F' AND age >= 60"),
    ("How many men have depression?", "depression", "sex = 'M'"),
)
"""What an analyst asks: in words, and as a count of a diagnosis among some patients."""


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
    unchanged: float  # the share of diagnoses that are expected to be published as they are
    guarantee: str
    release: Release
    replies: tuple[Reply, ...]
    verification: Verification

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "folder": str(self.folder),
            "record_utility": self.unchanged,
            "guarantee": self.guarantee,
            "answers": [{**vars(reply), "covered": reply.covered} for reply in self.replies],
            "verified": self.verification.holds,
        }

    def explain(self) -> str:
        """Return it in plain words."""
        manifest, checks = self.release.manifest, self.verification.checks
        held = sum(c.status == "holds" for c in checks)
        lines = [
            f"A clinic that does not exist has {manifest.data.rows:,} patients: "
            f"{self.folder / 'private' / 'clinic.parquet'}.",
            "It wants to publish them, but nobody's diagnosis may become known. The policy (private/policy.toml) says "
            "how much may be learned.",
            f"sfumato dropped the names and blurred each diagnosis: {of_100(self.unchanged)} are still true, "
            "and nobody can see which. Age, sex, region and education stay as they were.",
            "",
            *manifest.card.lines,
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
            (
                f"The release proves by itself: {outcome}. {len(checks) - held} things need an audit with the private "
                "table."
            ),
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
    made = plan(profile(table), policy.method, policy.requirement).bound_to(table.hash(), policy.hash())
    unchanged = made.figures.record_utility
    assert unchanged is not None  # the policy's method has one
    (private / "plan.json").write_text(made.to_json(), encoding="utf-8")
    release = publish(table, made, folder / "release")
    replies = tuple(_asked(release, *question, patients) for question in QUESTIONS)
    return Demo(folder, unchanged, made.guarantee.sentence, release, replies, release.verify())


def _asked(release: Release, words: str, diagnosis: str, where: str, patients: Any) -> Reply:
    rows = release.count(by="diagnosis", where=where).rows()
    row = next(row for row in rows if row["diagnosis"] == diagnosis)
    condition = f"diagnosis = '{diagnosis}'" + (f" AND {where}" if where else "")
    [(truth,)] = duckdb.execute(f"SELECT COUNT(*) FROM patients WHERE {condition}").fetchall()
    return Reply(words, row["estimate"], row["lower"], row["upper"], truth)


# --- the clinic -------------------------------------------------------------------------------------------------------

PATIENTS = 20_000

FIRST = {
    "F": ["Ada", "Bea", "Cleo", "Dora", "Edna", "Fay", "Gwen", "Hedy", "Iris", "June"],
    "M": ["Abe", "Ben", "Carl", "Dan", "Eli", "Finn", "Gus", "Hal", "Ian", "Joe"],
}
LAST = ["Amber", "Brook", "Cole", "Dale", "Ember", "Field", "Grove", "Hill", "Isle", "Knoll", "Lake", "Moor", "Stone"]
REGIONS = (("North", 0.28), ("East", 0.14), ("South", 0.33), ("West", 0.25))
EDUCATION = (("primary", 0.18), ("secondary", 0.47), ("tertiary", 0.35))

# diagnosis: weight at age 50, change of its logarithm per ten years of age, factors for women and men
DIAGNOSES: dict[str, tuple[float, float, float, float]] = {
    "hypertension": (26.0, 0.35, 0.95, 1.0),
    "back pain": (17.0, 0.05, 1.10, 1.0),
    "diabetes": (13.0, 0.30, 0.85, 1.0),
    "influenza": (12.0, -0.15, 1.00, 1.0),
    "depression": (9.0, -0.10, 1.70, 1.0),
    "asthma": (7.0, -0.25, 1.20, 1.0),
    "migraine": (5.0, -0.20, 2.60, 1.0),
    "COPD": (4.0, 0.40, 0.70, 1.0),
    "breast cancer": (2.6, 0.20, 1.60, 0.02),
    "prostate cancer": (2.2, 0.60, 0.0, 1.0),
    "epilepsy": (1.0, -0.05, 1.00, 1.0),
    "HIV": (0.7, -0.20, 0.45, 1.0),
}


def clinic(patients: int = PATIENTS, seed: int = 2026) -> Any:
    """Return the table: name, age, sex, region, education, diagnosis."""
    rng = simulation(seed)
    sex = np.where(rng.random(patients) < 0.54, "F", "M")
    age = np.clip(rng.normal(51, 19, patients), 0, 99).astype(np.int64)
    return pa.table(
        {
            "name": _names(rng, sex),
            "age": age.tolist(),
            "sex": sex.tolist(),
            "region": _drawn(rng, REGIONS, patients),
            "education": _drawn(rng, EDUCATION, patients),
            "diagnosis": _diagnoses(rng, age, sex),
        }
    )


def _names(rng: np.random.Generator, sex: Any) -> list[str]:
    first, last = rng.integers(0, 10, sex.size), rng.integers(0, len(LAST), sex.size)
    return [
        f"{FIRST[s][f]} {LAST[k]} {n}" for n, (s, f, k) in enumerate(zip(sex.tolist(), first, last, strict=True), 1)
    ]


def _drawn(rng: np.random.Generator, shares: tuple[tuple[str, float], ...], size: int) -> Any:
    return rng.choice([name for name, _ in shares], size=size, p=[share for _, share in shares]).tolist()


def _diagnoses(rng: np.random.Generator, age: Any, sex: Any) -> Any:
    weights = np.stack(
        [
            base * np.exp(slope * (age - 50) / 10) * np.where(sex == "F", women, men)
            for base, slope, women, men in DIAGNOSES.values()
        ],
        axis=1,
    )
    ends = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    picked = np.minimum((rng.random(age.size)[:, None] > ends).sum(axis=1), len(DIAGNOSES) - 1)
    return np.array(list(DIAGNOSES))[picked].tolist()
