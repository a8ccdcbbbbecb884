"""The cases of the net: one small table, and the policies under which it is published with a seed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

ROWS = 600
DIAGNOSES = ("asthma", "flu", "gout", "HIV", "mumps", "rash")
OUTCOMES = ("better", "same", "worse")
PRIORS = {
    "sex.csv": "sex,value,probability\n"
    + "".join(
        f"{sex},{value},{share}\n"
        for sex in ("F", "M")
        for value, share in zip(DIAGNOSES, ("0.3", "0.2", "0.2", "0.1", "0.1", "0.1"), strict=True)
    )
}
MATRIX = "\n".join(
    [
        f"published,{','.join(DIAGNOSES)}",
        "asthma,0.3,0.15,0.15,0.1,0.1,0.15",
        "flu,0.2,0.35,0.15,0.1,0.2,0.15",
        "gout,0.15,0.15,1/4,0.15,0.1,0.1",
        "HIV,0.1,0.1,0.15,0.3,0.15,0.15",
        "mumps,0.15,0.15,3/20,0.2,0.3,0.15",
        "rash,0.1,0.1,0.15,0.15,0.15,0.3",
    ]
)
FILES = {**PRIORS, "matrix.csv": MATRIX}
"""Files that policies name."""
KEY_FILE = "a3" * 32
"""What the publisher's key file holds, in the case that has one."""

QUESTIONS = (
    "SELECT {s}, COUNT(*) FROM release GROUP BY {s}",
    "SELECT sex, COUNT(*), AVG(visits), SUM(visits) FROM release WHERE {s} = '{v}' GROUP BY sex",
    "SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () FROM release GROUP BY region",
)
"""What an analyst asks of every release; s is the (first) sensitive column and v a value of it."""


@dataclass(frozen=True)
class Case:
    """A policy, and what of it cannot be said in TOML."""

    name: str
    policy: str
    key_file: bool = False
    from_csv: bool = False  # the table is read from a CSV file, not handed over in memory
    in_full: bool = False  # first of its method: also on Spark, with the public report and the answers from CSV
    sensitive: str = "diagnosis"
    value: str = "flu"


# --- the table --------------------------------------------------------------------------------------------------------


@cache
def table() -> pa.Table:
    """Return the table: numbers, texts, dates, missing values, persons with several rows, and rows in random order.

    Drawn by `random()` alone, of which Python promises that a seed gives the same numbers in every version.
    """
    draw = Random("golden").random
    rows = range(ROWS)
    sex = ["F" if draw() < 0.55 else "M" for _ in rows]
    return pa.table(
        {
            "name": [f"Person {k}" for k in rows],
            "record": [f"r{(k * 7919) % 9973:04}" for k in rows],
            "person": [f"p{int(draw() * ROWS * 0.9)}" for _ in rows],
            "age": pa.array([18 + int(draw() * 60) for _ in rows], pa.int32()),
            "sex": sex,
            "region": [_pick(draw(), ("north", "east", "south", "islands"), (5, 3, 3, 1)) for _ in rows],
            "weight": [None if draw() < 0.05 else round(50 + draw() * 60, 1) for _ in rows],
            "visits": [1 + int(draw() * draw() * 12) for _ in rows],
            "insured": [draw() < 0.8 for _ in rows],
            "born": [dt.date(1950 + int(draw() * 4), 1 + int(draw() * 12), 1 + int(draw() * 28)) for _ in rows],
            "diagnosis": [_pick(draw(), DIAGNOSES, (5, 5 if s == "F" else 2, 4, 2, 3, 3)) for s in sex],
            "finding": [None if draw() < 0.08 else _pick(draw(), DIAGNOSES[:4], (9, 5, 4, 2)) for _ in rows],
            "outcome": [_pick(draw(), OUTCOMES, (4, 3, 2)) for _ in rows],
            "common": [_pick(draw(), DIAGNOSES, (9, 8, 2, 1, 1, 1)) for _ in rows],
            "job": [f"job {int(30 * draw() ** 1.6):02}" for _ in rows],
        }
    )


def _pick(place: float, values: Sequence[str], weights: Sequence[int]) -> str:
    """Return the value at a place between 0 and 1."""
    place *= sum(weights)
    for value, weight in zip(values, weights, strict=True):
        place -= weight
        if place < 0:
            return value
    return values[-1]


# --- policies ---------------------------------------------------------------------------------------------------------

LEFT_OUT = {
    "name": 'role = "identifier"',
    "record": 'role = "identifier"',
    "person": 'role = "drop"',
    **dict.fromkeys(("diagnosis", "finding", "outcome", "common", "job", "born"), 'role = "drop"'),
}
PUBLISHED = {
    "age": 'role = "quasi_identifier"\nbins = { breaks = [30, 50, 65] }',
    "sex": 'role = "quasi_identifier"\ndomain = ["F", "M"]',
    "region": 'role = "quasi_identifier"\nmerge = { sea = ["islands", "south"] }',
    "weight": 'role = "other"\nmissing = "category"\nbins = { width = 20 }',
    "visits": 'role = "other"',
    "insured": 'role = "other"',
}
HIDDEN = 'role = "sensitive"'
DECLARED = f'{HIDDEN}\ndomain = ["asthma", "flu", "gout", "HIV", "mumps", "rash"]'
TENS = "bins = { breaks = [20, 30, 40, 50, 60, 70] }"
WITH_GAPS = f'{HIDDEN}\nmissing = "category"'
WITHOUT_GAPS = f'{HIDDEN}\ndomain = ["asthma", "flu", "gout", "HIV"]\nmissing = "drop"'


def _policy(method: str, requirement: str, top: str = "", end: str = "", **columns: str) -> str:
    """Return a policy; `columns` are the sections that differ from those above."""
    sections = [f"[columns.{name}]\n{rule}" for name, rule in {**LEFT_OUT, **PUBLISHED, **columns}.items()]
    return "\n\n".join([top, *sections, f"[method]\n{method}", f"[requirement]\n{requirement}", end])


def _named(method: str, options: str = "", published: bool = False) -> str:
    assurance = '\nassurance = "as-published"' if published else ""
    return f'name = "{method}"{assurance}\n{options}'


RHO = "rho1 = 0.2\nrho2 = 0.5"
RECORDS = 'objective = "records"'
KEEP = '[output]\norder = "keep"'
PERSON = '[person]\ncolumn = "person"\nrepeated = '
PUBLIC_SHARES = "{ asthma = 0.25, flu = 0.2, gout = 0.2, HIV = 0.05, mumps = 0.15, rash = 0.15 }"
PER_VALUE = """
[[requirement.values]]
value = "HIV"
rho1 = "1/10"
rho2 = "1/4"

[[requirement.values]]
value = "HIV"
rho1 = 0.01
rho2 = 0.04
given = "age below 30"
"""
OF_SETS = """
[[requirement.values]]
values = ["HIV", "gout", "rash"]
rho1 = "1/10"
rho2 = "1/4"

[[requirement.values]]
between = ["f", "g"]
gamma = 5
"""
PER_PAIR = """
others = "unprotected"

[[requirement.values]]
value = ["HIV", "worse"]
rho1 = 0.05
rho2 = 0.2
"""
FEW = {"age": 'role = "quasi_identifier"\nbins = { breaks = [45] }', "region": 'role = "other"'}
"""Quasi-identifiers for randomized response, which counts their combinations."""
EXCEPTIONS = """
[[requirement.groups]]
where = { sex = "F", diagnosis = ["HIV", "gout"] }
risk_limit = 0.22

[[requirement.groups]]
where = { sex = "M" }
risk_limit = "31/100"

[[requirement.groups]]
where = { diagnosis = "rash" }
l = 4
"""


def _perturbed() -> Iterator[Case]:
    uniform, fine, pairs = _named("uniform"), _named("fine-grain", RECORDS), {"diagnosis": DECLARED, "outcome": HIDDEN}
    yield Case("uniform", _policy(uniform, RHO, diagnosis=HIDDEN), in_full=True)
    yield Case("uniform as published", _policy(_named("uniform", published=True), RHO, diagnosis=HIDDEN))
    yield Case("uniform, missing is a value", _policy(uniform, RHO, finding=WITH_GAPS), sensitive="finding")
    yield Case(
        "uniform, gamma, rows dropped and kept in order",
        _policy(uniform, "gamma = 5", end=KEEP, finding=WITHOUT_GAPS),
        sensitive="finding",
    )
    yield Case("uniform, epsilon, two columns", _policy(uniform, "epsilon = 1.5", **pairs))
    yield Case(
        "uniform, tolerance, one row of a person",
        _policy(uniform, f"tolerance = 3\nrho1 = {PUBLIC_SHARES}", end=PERSON + '"keep-one"', diagnosis=DECLARED),
    )
    keyed = 'record_key = "record"\nseries = "golden"'
    kept = _policy(uniform, RHO, keyed, KEEP, diagnosis=DECLARED)  # a kept key does not repeat the order of rows
    yield Case("uniform, record key and key file", kept, key_file=True)
    yield Case(
        "uniform, from CSV, dates",
        _policy(uniform, "rho1 = 0.1\nrho2 = 0.4\nfrom_table = true", born='role = "other"\nbins = "year"', job=HIDDEN)
        + '\n[input]\ndelimiter = ";"\nmissing_values = ["", "NA"]\n',
        from_csv=True,
        sensitive="job",
        value="job 03",
    )
    yield Case("fine-grain", _policy(fine, RHO + PER_VALUE, diagnosis=DECLARED), in_full=True)
    yield Case(
        "fine-grain as published",
        _policy(_named("fine-grain", published=True), RHO + PER_VALUE, diagnosis=DECLARED),
    )
    yield Case(
        "fine-grain, tolerance, observed shares and weights",
        _policy(
            _named("fine-grain", 'weights = "observed"\nretention_floor = 0.02'),
            'tolerance = 3\nrho1 = "observed"',
            diagnosis=HIDDEN,
        ),
    )
    yield Case(
        "fine-grain, tolerance, public weights, kept in order",
        _policy(
            _named("fine-grain", f"weights = {PUBLIC_SHARES}\n{RECORDS}"),
            f"tolerance = 2\nrho1 = {PUBLIC_SHARES}",
            end=KEEP,
            diagnosis=DECLARED,
        ),
    )
    yield Case(
        "fine-grain, a matrix from a file",
        _policy(_named("fine-grain", 'matrix = "matrix.csv"'), "gamma = 3.6", diagnosis=DECLARED),
    )
    least = _named("fine-grain")
    yield Case("fine-grain, least error", _policy(least, RHO + PER_VALUE, diagnosis=DECLARED), in_full=True)
    cover = _named("fine-grain", "upward_only = true")
    yield Case("fine-grain, least error, upward only", _policy(cover, RHO + PER_VALUE, diagnosis=DECLARED))
    sets = _policy(least, 'others = "unprotected"' + OF_SETS, diagnosis=DECLARED)
    yield Case("fine-grain, sets of values alone", sets)
    yield Case(
        "fine-grain, gamma, values and sets", _policy(least, "gamma = 9" + OF_SETS + PER_VALUE, diagnosis=DECLARED)
    )
    yield Case("uniform, values and sets", _policy(uniform, RHO + OF_SETS, diagnosis=DECLARED))
    for form in ("set", "card"):
        subset = _named("subset", f'form = "{form}"')
        yield Case(f"subset, {form}s", _policy(subset, "gamma = 2", diagnosis=DECLARED), in_full=form == "set")
        graded = _named("subset", f'graded = true\nform = "{form}"')
        yield Case(
            f"subset, graded {form}s", _policy(graded, RHO + PER_VALUE, diagnosis=DECLARED), in_full=form == "card"
        )
    aged = {"sensitive": "age", "value": "[30, 40)"}
    for name, options in (
        ("ranges", 'form = "set"'),
        ("ranges, cards of windows and values", 'mixed_with = "values"\nform = "card"'),
        ("plateau", ""),
        ("geometric", "steps = 2"),
    ):
        method = _named(name.split(",")[0], options)
        yield Case(name, _policy(method, RHO, age=f"{HIDDEN}\n{TENS}"), in_full=name == "ranges", **aged)
    yield Case("fine-grain, two columns", _policy(fine, PER_PAIR, **pairs))
    yield Case(
        "fine-grain, gamma, a row counts",
        _policy(fine, "gamma = 4", end=PERSON + '"per-row"', job=HIDDEN),
        sensitive="job",
        value="job 03",
    )


def _by_column() -> Iterator[Case]:
    ordered = f'role = "sensitive"\ndomain = {list(OUTCOMES)}\nordered = true\n'
    ranges = ordered + 'method = { name = "ranges" }\nrequirement = { gamma = 4 }'
    yield Case("several", _policy(_named("subset"), RHO, diagnosis=DECLARED, outcome=ranges), in_full=True)
    near = ordered + 'method = { name = "geometric", steps = 1 }\nrequirement = { rho1 = 0.1, rho2 = 0.25 }'
    fine = (
        'role = "sensitive"\nmissing = "category"\nmethod = { name = "fine-grain", weights = "observed" }\n'
        'requirement = { tolerance = 2, rho1 = "observed" }'
    )
    keyed = 'record_key = "record"\nseries = "golden"'
    yield Case(
        "several, record key, three methods",
        _policy(
            _named("uniform"), "epsilon = 1.5", keyed, diagnosis=DECLARED, common=HIDDEN, outcome=near, finding=fine
        ),
    )
    yield Case(
        "several, kept in order",
        _policy(_named("uniform"), "gamma = 3", end=KEEP, diagnosis=DECLARED, outcome=ranges),
    )


def _dealt() -> Iterator[Case]:
    small, jobs = "minimum_sub_table = 100\ndelta = 0.1", {"sensitive": "job", "value": "job 03"}
    yield Case("small-domain", _policy(_named("small-domain", small), RHO, job=HIDDEN), in_full=True, **jobs)
    yield Case(
        "small-domain as published",
        _policy(_named("small-domain", published=True), 'rho1 = "1/5"\nrho2 = "1/4"', job=HIDDEN),
        **jobs,
    )
    yield Case(
        "small-domain, two columns, kept in order",
        _policy(
            _named("small-domain", "minimum_sub_table = 50"),
            "rho1 = 0.2\nrho2 = 0.7",
            end=KEEP,
            diagnosis=DECLARED,
            outcome=HIDDEN,
        ),
    )


def _responses() -> Iterator[Case]:
    def case(name: str, options: str, requirement: str, published: bool = False, **more: Any) -> Case:
        method = _named("randomized-response", options, published)
        return Case(name, _policy(method, requirement, diagnosis=DECLARED, **FEW), **more)

    yield case("randomized-response", "", "risk_limit = 0.3", in_full=True)
    yield case(
        "randomized-response, exceptions", 'fixed = ["sex"]\nobjective = "chi-square"', "risk_limit = 0.27" + EXCEPTIONS
    )
    yield case("randomized-response, link", 'risk = "link"\nscope = "quasi-identifiers"', "risk_limit = 0.3")
    yield case("randomized-response as published", "", "risk_limit = 0.2", published=True)
    yield case("randomized-response as published, sensitive", 'scope = "sensitive"', "l = 4", published=True)
    keyed = 'record_key = "record"\nseries = "golden"'
    yield Case(
        "randomized-response, record key, two columns",
        _policy(_named("randomized-response"), 'risk_limit = "3/20"', keyed, diagnosis=DECLARED, outcome=HIDDEN, **FEW),
    )


def _grouped() -> Iterator[Case]:
    yield Case("anatomy", _policy(_named("anatomy"), "l = 3", diagnosis=HIDDEN), in_full=True)
    yield Case(
        "anatomy as published",
        _policy(_named("anatomy", published=True), "l = 2", finding=WITHOUT_GAPS),
        sensitive="finding",
    )
    for name, options in (
        ("suppression", ""),
        ("suppression, spread", 'variant = "spread"'),
        ("suppression, safe-d", 'variant = "safe-d"'),
        ("suppression, always", "always = true"),
        ("suppression, spread always", 'variant = "spread"\nalways = true'),
    ):
        column = "diagnosis" if "always" in options else "common"
        policy = _policy(_named("suppression", options), "l = 3", **{column: HIDDEN})
        yield Case(name, policy, sensitive=column, in_full=name == "suppression")
    policy = _policy(_named("suppression", published=True), "l = 3", common=HIDDEN)
    yield Case("suppression as published", policy, sensitive="common")
    sets = 'attribute_sets = [["sex"], ["sex", "region", "age"]]\n'
    for name, options, published in (
        ("robust-anatomy", sets, False),
        ("robust-anatomy, prior of the table", sets + 'prior = "table"', False),
        ("robust-anatomy, prior in a file", 'attribute_sets = [["sex"]]\nprior = ["sex.csv"]', False),
        ("robust-anatomy as published", 'attribute_sets = [["sex"]]\nprior = "table"', True),
    ):
        policy = _policy(_named("robust-anatomy", options, published), "r = 3", diagnosis=DECLARED)
        yield Case(name, policy, in_full=name == "robust-anatomy")


CASES = {case.name: case for case in (*_perturbed(), *_by_column(), *_dealt(), *_responses(), *_grouped())}
ON_SPARK = {f"{case.name}, on Spark": case for case in CASES.values() if case.in_full}
