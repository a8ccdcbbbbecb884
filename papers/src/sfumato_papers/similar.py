"""Generated tables that are similar to the papers': the same columns and sizes, about the same shares, no real record.

Shares are rounded from the descriptions that the public tables come with. Some columns depend on others, so that there
is an association to keep: occupation on sex and education, income on education. The shares of each column stay as
stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.values.randomness import simulation

SEED = 1996
TRAIN, TEST = 30_162, 15_060
Shares = Mapping[str, float]
Floats = npt.NDArray[np.float64]

WORKCLASS: Shares = {
    "Private": 737, "Self-emp-not-inc": 84, "Local-gov": 69, "State-gov": 43, "Self-emp-inc": 36, "Federal-gov": 31,
    "Without-pay": 0.5,
}  # fmt: skip
EDUCATION: Shares = {
    "HS-grad": 327, "Some-college": 219, "Bachelors": 167, "Masters": 56, "Assoc-voc": 43, "11th": 36, "Assoc-acdm": 33,
    "10th": 27, "7th-8th": 18, "Prof-school": 17, "9th": 15, "12th": 13, "Doctorate": 12, "5th-6th": 10, "1st-4th": 5,
    "Preschool": 1.6,
}  # fmt: skip
MARITAL: Shares = {
    "Married-civ-spouse": 466, "Never-married": 323, "Divorced": 139, "Separated": 31, "Widowed": 28,
    "Married-spouse-absent": 12, "Married-AF-spouse": 0.7,
}  # fmt: skip
RELATIONSHIP: Shares = {
    "Husband": 413, "Not-in-family": 259, "Own-child": 147, "Unmarried": 106, "Wife": 46, "Other-relative": 30,
}  # fmt: skip
OCCUPATION: Shares = {
    "Craft-repair": 133, "Prof-specialty": 133, "Exec-managerial": 132, "Adm-clerical": 123, "Sales": 120,
    "Other-service": 106, "Machine-op-inspct": 66, "Transport-moving": 51, "Handlers-cleaners": 45,
    "Farming-fishing": 33, "Tech-support": 31, "Protective-serv": 22, "Priv-house-serv": 5, "Armed-Forces": 0.3,
}  # fmt: skip
RACE: Shares = {"White": 860, "Black": 93, "Asian-Pac-Islander": 29, "Amer-Indian-Eskimo": 10, "Other": 8}
SEX: Shares = {"Male": 675, "Female": 325}
BY_HAND = ("Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing")
DEGREES = ("Bachelors", "Masters", "Prof-school", "Doctorate")
BY_DEGREE = ("Prof-specialty", "Exec-managerial")
TILTS: Floats = np.array(
    [
        [
            (0.25 if female and name in BY_HAND else 1) * (4 if degree and name in BY_DEGREE else 1)
            for name in OCCUPATION
        ]
        for female in (False, True)
        for degree in (False, True)
    ]
)
"""How much likelier each occupation is made for men and women, without and with a degree."""
ROUNDS = 200
REACTIONS, REACTION_ROWS = 40, 95_946
CENSUS: Mapping[str, int] = {"gender": 2, "marital": 6, "race": 9, "work_class": 7, "state": 70}
SCHOOLING: Shares = {
    f"education {i:02}": share for i, share in enumerate((270, 200, 180, 120, 90, 30, 25, 20, 18, 15, 12, 10, 7, 3), 1)
}
"""Of 14 levels the largest has 27%, and nine have 3.33% or less, as in CENSUS."""
OCCUPATIONS = 50
AGES = (17, 77)
"""The first age, and how many there are."""


def similar_adult() -> Any:
    """Return 45,222 rows like Adult's, with a column `split`."""
    draw, rows = simulation(SEED), TRAIN + TEST
    sex, education = _drawn(draw, SEX, rows), _drawn(draw, EDUCATION, rows)
    has_degree = np.isin(education, DEGREES)
    earns_more = draw.random(rows) < np.where(has_degree, 0.48, 0.17)
    columns = {
        "age": AGES[0] + (73 * draw.beta(1.7, 3.2, rows)).astype(np.int64),
        "workclass": _drawn(draw, WORKCLASS, rows),
        "education": education,
        "marital_status": _drawn(draw, MARITAL, rows),
        "occupation": _occupations(draw, sex == "Female", has_degree),
        "relationship": _drawn(draw, RELATIONSHIP, rows),
        "race": _drawn(draw, RACE, rows),
        "sex": sex,
        "native_country": _drawn(draw, _zipf("country", 41, 3.5), rows),
        "income": np.where(earns_more, ">50K", "<=50K"),
        "split": np.where(np.arange(rows) < TRAIN, "train", "test"),
    }
    return _table(columns)


def similar_census(rows: int) -> Any:
    """Return rows like those of CENSUS: its columns and their numbers of values."""
    draw = simulation(SEED)
    ages = {"age": AGES[0] + draw.integers(0, AGES[1], rows)}
    others = {name: _drawn(draw, _zipf(name, size, 0.7), rows) for name, size in CENSUS.items()}
    schooling = _drawn(draw, SCHOOLING, rows)
    jobs = _jobs(draw, others["gender"], schooling)
    return _table(ages | others | {"education": schooling, "occupation": jobs})


def _jobs(
    draw: np.random.Generator, gender: npt.NDArray[np.str_], schooling: npt.NDArray[np.str_]
) -> npt.NDArray[np.str_]:
    """Draw occupations, of which every gender and schooling has ten three times as often; the largest has about 7%."""
    base = _zipf("occupation", OCCUPATIONS, 0.42)
    jobs = np.empty(gender.size, dtype=np.array(list(base)).dtype)
    for g, one in enumerate(np.unique(gender)):
        for e, level in enumerate(SCHOOLING):
            rows = (gender == one) & (schooling == level)
            tilt = {job: share * (3 if (j + 2 * e + g) % 5 == 0 else 1) for j, (job, share) in enumerate(base.items())}
            jobs[rows] = _drawn(draw, tilt, int(rows.sum()))
    return jobs


def similar_reactions() -> Any:
    """Return as many rows as CADR has, of 40 reactions with frequencies as 1/i."""
    draw = simulation(SEED)
    drugs = _drawn(draw, _zipf("drug", 500, 1.0), REACTION_ROWS)
    return _table({"drug": drugs, "reaction": _drawn(draw, _zipf("reaction", REACTIONS, 1.0), REACTION_ROWS)})


def _zipf(name: str, size: int, exponent: float) -> Shares:
    """Return shares in proportion to i^-exponent."""
    return {f"{name} {i:02}": i**-exponent for i in range(1, size + 1)}


def _drawn(draw: np.random.Generator, shares: Shares, rows: int) -> npt.NDArray[np.str_]:
    weights = np.array(list(shares.values()), dtype=np.float64)
    return np.array(list(shares))[draw.choice(len(shares), rows, p=weights / weights.sum())]


def _occupations(
    draw: np.random.Generator, is_female: npt.NDArray[np.bool_], has_degree: npt.NDArray[np.bool_]
) -> npt.NDArray[np.str_]:
    """Draw occupations: manual ones about four times less often for women, two others more often with a degree."""
    kind = 2 * is_female + has_degree
    likelihoods = fitted(TILTS, np.bincount(kind, minlength=len(TILTS)), np.array(list(OCCUPATION.values())))
    occupations = np.empty(kind.size, dtype=np.array(list(OCCUPATION)).dtype)
    for k, shares in enumerate(likelihoods):
        rows = kind == k
        occupations[rows] = _drawn(draw, dict(zip(OCCUPATION, shares, strict=True)), int(rows.sum()))
    return occupations


def fitted(tilts: Floats, sizes: npt.NDArray[np.int64], shares: Floats) -> Floats:
    """Return Pr[value | kind] in proportion to a factor of the value times its tilt, so that all have these shares.

    The factors are found by iterative proportional fitting.        # tilts: (kind, value)
    """
    weights, wanted, joint = sizes / sizes.sum(), shares / shares.sum(), np.asarray(tilts * shares)
    for _ in range(ROUNDS):
        joint = joint * (weights / joint.sum(axis=1))[:, None]
        joint = joint * (wanted / joint.sum(axis=0))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _table(columns: Mapping[str, npt.NDArray[Any]]) -> Any:
    arrays = {name: pa.array(column) for name, column in columns.items()}
    return pa.table({n: a.dictionary_encode() if pa.types.is_string(a.type) else a for n, a in arrays.items()})
