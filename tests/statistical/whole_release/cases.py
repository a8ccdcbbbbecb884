"""Pairs of tables that differ in one record, for all methods that bound odds for any prior: domains are declared."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa

from sfumato.publisher.policy import Policy
from tests.conftest import make_policy
from tests.statistical.whole_release.publishing import Format, Pair, policy

GAMMA = Fraction(3, 2)
"""A small factor: the smaller the promised one, the smaller the leaks that are found."""
STRICT = 'gamma = "3/2"'
TWO, THREE = "['a', 'b']", "['a', 'b', 'c']"
EQUAL = 'weights = "equal"'
BY_VALUE = """
rho1 = "1/3"
rho2 = "1/2"
values = [{ value = "c", rho1 = "1/4", rho2 = "1/3" }]
"""
"""gamma 2 for a and b, 3/2 for c."""

SORTED = "aaaaaaaabbbbbbb"  # and one more, which is unknown
UNIFORM: dict[str, tuple[Pair, Format]] = {
    "few rows": (Pair(policy(STRICT, THREE), GAMMA, "aabc", 2, "c"), "parquet"),
    "few rows, csv": (Pair(policy(STRICT, THREE), GAMMA, "aabc", 2, "c"), "csv"),
    "sorted": (Pair(policy(STRICT, TWO), GAMMA, SORTED + "a", 15, "b"), "parquet"),
    "the only one": (Pair(policy(STRICT, THREE), GAMMA, "abab", 1, "c"), "parquet"),
}
FINE_GRAIN: dict[str, tuple[Pair, Format]] = {
    "by value": (Pair(policy(BY_VALUE, THREE, "fine-grain", EQUAL), GAMMA, "aabc", 2, "c"), "parquet"),
    "by value, csv": (Pair(policy(BY_VALUE, THREE, "fine-grain", EQUAL), GAMMA, "abab", 1, "c"), "csv"),
}
_OWN = "sensitive; domain = ['F', 'M']; method = { name = 'uniform' }; requirement = { gamma = '3/2' }"
_ROLES = {"name": "identifier", "who": "other", "sex": _OWN, "disease": f"sensitive; domain = {THREE}"}
BY_COLUMN = {form: make_policy(_ROLES, STRICT, "subset", options=f"form = '{form}'") for form in ("set", "card")}
"""Two sensitive columns, each with a method of its own."""
SEVERAL: dict[str, tuple[Pair, Format]] = {
    "one column differs": (Pair(BY_COLUMN["card"], GAMMA, "aabc", 2, "c"), "parquet"),
    "both differ, csv": (Pair(BY_COLUMN["set"], GAMMA**2, "aabc", 2, "c", other_sex="M"), "csv"),
}
GRADED = {form: policy(BY_VALUE, THREE, "subset", f"graded = true\nform = '{form}'") for form in ("set", "card")}
SETS: dict[str, tuple[Pair, Format]] = {
    "graded sets": (Pair(GRADED["set"], GAMMA, "aabc", 2, "c"), "parquet"),
    "graded cards, csv": (Pair(GRADED["card"], GAMMA, "abab", 1, "c"), "csv"),
}
IN_ORDER = "; ordered = true"
FIVE = "['a', 'b', 'c', 'd', 'e']"


def _ordered(method: str, options: str = "", domain: str = FIVE) -> Policy:
    return policy(STRICT, domain, method, options, IN_ORDER)


ORDERED: dict[str, tuple[Pair, Format]] = {
    "ranges": (Pair(_ordered("ranges", "form = 'set'"), GAMMA, "aabe", 2, "c"), "parquet"),
    "ranges, csv": (Pair(_ordered("ranges", "form = 'set'"), GAMMA, "adab", 1, "e"), "csv"),
    "plateau": (Pair(_ordered("plateau", domain=THREE), GAMMA, "aabc", 2, "c"), "csv"),
    "geometric, one step": (Pair(_ordered("geometric", "steps = 1", THREE), GAMMA, "aabc", 2, "c"), "parquet"),
}
"""Of geometric values one step apart: further ones have a larger factor, which is stated."""
CASES = {f"uniform, {name}": case for name, case in UNIFORM.items()} | {
    f"fine-grain, {name}": case for name, case in FINE_GRAIN.items()
}
CASES |= {f"several, {name}": case for name, case in SEVERAL.items()}
CASES |= {f"subset, {name}": case for name, case in SETS.items()} | ORDERED

MISSING = "; missing = 'category'"
FURTHER: dict[str, tuple[Pair, Format]] = {
    "quasi-identifiers": (Pair(policy(STRICT, THREE, known="quasi_identifier"), GAMMA, "aabc", 2, "c"), "parquet"),
    "all alike": (Pair(policy(STRICT, THREE), GAMMA, "aaaa", 3, "b"), "csv"),
    "numbers in a file": (
        Pair(policy(STRICT, "[1, 2, 100000]"), GAMMA, [1, 2, 2, 1], 0, 100000, stored="csv"),
        "csv",
    ),
    "a missing value": (Pair(policy(STRICT, TWO, sensitive=MISSING), GAMMA, ["a", "b", None, "a"], 2, "b"), "csv"),
    "a missing value, parquet": (
        Pair(policy(STRICT, TWO, sensitive=MISSING), GAMMA, ["a", "b", None, "a"], 2, "b"),
        "parquet",
    ),
    "bins": (
        Pair(policy(STRICT, None, sensitive="; bins = { breaks = [10, 20] }"), GAMMA, [5, 15, 25, 7], 3, 900_000),
        "parquet",
    ),
    "bins in a file": (
        Pair(
            policy(STRICT, None, sensitive="; bins = { breaks = [10, 20] }"),
            GAMMA,
            [5, 15, 25, 7],
            3,
            900_000,
            stored="csv",
        ),
        "csv",
    ),
    "small numbers": (Pair(policy(STRICT, "[1, 2, 3]"), GAMMA, [1, 2, 2, 1], 0, 3, pa.int8()), "parquet"),
    "a dictionary": (
        Pair(policy(STRICT, THREE), GAMMA, "aabc", 3, "b", pa.dictionary(pa.int8(), pa.string())),
        "parquet",
    ),
    "a dictionary in a file": (
        Pair(policy(STRICT, THREE), GAMMA, "aabc", 3, "b", pa.dictionary(pa.int8(), pa.string()), "parquet"),
        "parquet",
    ),
    "a text that needs quotes": (
        Pair(policy(STRICT, "['a', 'b, c']"), GAMMA, "aaaa", 3, "b, c", stored="csv"),
        "csv",
    ),
    "texts that look like numbers": (
        Pair(policy(STRICT, "['007', '8', 'x']"), GAMMA, ["007", "8", "8", "x"], 3, "8", stored="csv"),
        "csv",
    ),
}
"""What is read, or how: for `pytest -m slow`."""
