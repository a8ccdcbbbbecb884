"""A synthetic clinic: nobody in it exists. Diagnoses are skewed and depend on age and sex, as real ones do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.values.randomness import simulation

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
