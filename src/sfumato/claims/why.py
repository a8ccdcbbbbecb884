"""Why a promise gives these matrices or groups: formulas with the numbers put in, which `--why` alone shows.

Everything follows from the claim and the matrices, which are public: a plan and its release tell the same. The proofs
are on the pages that `proof` names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from sfumato.values.bound import Bound, strictest_gamma
from sfumato.values.matrix.base import Direction
from sfumato.values.mechanism import Mechanism, SubTable

MOST_BOUNDS = 3  # different bounds of values that are told
PROOFS = "docs/methods/proofs"


class Step(NamedTuple):
    """A step of the reason: what it is about, and its formulas."""

    about: str
    lines: tuple[str, ...]


class Why(NamedTuple):
    """The reason of a promise, step by step, and the page of its proof."""

    steps: tuple[Step, ...]
    proof: str

    def explain(self) -> str:
        """Return the steps, numbered, and where the proof is."""
        told = [
            "\n".join([f"{number}. {step.about}", *(f"   {line}" for line in step.lines)])
            for number, step in enumerate(self.steps, 1)
        ]
        return "\n\n".join([*told, f"Proof: {self.proof}"])

    def to_dict(self) -> dict[str, object]:
        """Return the same as JSON-ready values."""
        return {"steps": [{"about": step.about, "lines": list(step.lines)} for step in self.steps], "proof": self.proof}


def proof(method: str) -> str:
    """Return the page of a method's proof."""
    return f"{PROOFS}/{method}.md"


# --- bounds on odds ---------------------------------------------------------------------------------------------------


class Nearest(NamedTuple):
    """The pair of true values, and what is published, whose ratio of chances is nearest to what is allowed."""

    table: int
    code: int
    rival: int
    published: int
    direction: Direction
    gamma: Fraction
    ratio: Fraction


def of_odds(mechanism: Mechanism, directions: Sequence[Direction], joined: bool) -> Iterator[Step]:
    """Yield how bounds on beliefs become a matrix, and the matrix a promise.

    `joined`: the promise is about all statements, also those that join several values.
    """
    bounds = sorted(
        {
            b
            for table in mechanism.tables
            for b in (*table.bounds, *(s.bound for s in table.sets))
            if b.gamma is not None
        },
        key=lambda bound: bound.gamma or 0,
    )
    if not bounds:
        yield Step(f"Nothing is required of {mechanism.domain.name}.", ("No ratio of chances has a limit.",))
        return
    more = [f"... and {len(bounds) - MOST_BOUNDS:,} looser ones"] if len(bounds) > MOST_BOUNDS else []
    yield Step(
        "From beliefs to odds: gamma is by how many times odds may change",
        (*map(_gamma_of, bounds[:MOST_BOUNDS]), *more),
    )
    yield Step("What the matrix must keep: P[y, x] is the chance to publish y of a true x", _kept(mechanism, joined))
    if found := _nearest(mechanism, directions, joined):
        yield Step(
            "What binds: the ratio that is nearest to its limit",
            (*_ratio(mechanism, found), *_uniform(mechanism, found)),
        )
    yield Step("So the promise holds, by Bayes' rule", _belief(bounds[0], directions))


def _gamma_of(bound: Bound) -> str:
    """Return where a factor comes from.

    gamma = rho2/rho1 * (1 - rho1)/(1 - rho2)
    """
    assert bound.gamma is not None
    if bound.rho1 is None or bound.rho2 is None:
        return f"gamma = {number(bound.gamma)}, as it was asked for; epsilon = ln gamma = {math.log(bound.gamma):.4f}"
    rho1, rho2 = bound.rho1, bound.rho2
    return (
        f"rho1 = {number(rho1)}, rho2 = {number(rho2)}: gamma = rho2/rho1 * (1 - rho1)/(1 - rho2) = "
        f"{number(rho2 / rho1)} * {number((1 - rho1) / (1 - rho2))} = {number(bound.gamma)}"
    )


def _kept(mechanism: Mechanism, joined: bool) -> tuple[str, ...]:
    """Return the inequalities that all entries keep."""
    where = "in each sub-table, " if mechanism.label else ""
    if joined:
        return (f"P[y, x] <= gamma * P[y, z], {where}for all published y and all true x, z",)
    of_sets = (
        ("max P[y, x in S] <= gamma_S * min P[y, z not in S], for each set S with a bound",) if mechanism.sets else ()
    )
    return (f"P[y, x] <= gamma_x * P[y, z], {where}for all published y and all other values z", *of_sets)


def _nearest(mechanism: Mechanism, directions: Sequence[Direction], joined: bool) -> Nearest | None:
    """Return the ratio that is nearest to its limit, of all sub-tables, values and directions: the first of them."""
    found: Nearest | None = None
    for place, table in enumerate(mechanism.tables):
        for code, gamma in enumerate(_gammas(table, joined)):
            for direction in directions if gamma is not None and table.matrix.size > 1 else ():
                ratio = getattr(table.matrix, direction)(code)
                if ratio is None or gamma is None:
                    continue
                if found is None or ratio / gamma > found.ratio / found.gamma:
                    published, rival = table.matrix.worst_case(code, direction)
                    found = Nearest(place, code, rival, published, direction, gamma, ratio)
    return found


def _gammas(table: SubTable, joined: bool) -> list[Fraction | None]:
    """Return the factor of each value; of promises on any statement the strictest one."""
    if joined:
        return [strictest_gamma(table.bounds, table.sets)] * len(table.bounds)
    return [bound.gamma for bound in table.bounds]


def _ratio(mechanism: Mechanism, found: Nearest) -> tuple[str, ...]:
    """Return the two chances, their ratio and its limit."""
    table = mechanism.tables[found.table]
    y, x, z = _labels(mechanism, table, found)
    top, below = (found.code, found.rival) if found.direction == "upward" else (found.rival, found.code)
    first, second = (x, z) if found.direction == "upward" else (z, x)
    high, low = (table.matrix.weight(found.published, code) / 2**64 for code in (top, below))
    where = f"sub-table {found.table + 1} of {len(mechanism.tables):,}: " if mechanism.label else ""
    return (
        f"{where}P[{y}, {first}] / P[{y}, {second}] = {high:.6g} / {low:.6g} = {number(found.ratio)} "
        f"<= {number(found.gamma)}",
        "Chances are integers over 2^64, rounded so that this holds exactly; `sfumato verify` compares the integers.",
    )


def _labels(mechanism: Mechanism, table: SubTable, found: Nearest) -> tuple[str, str, str]:
    published = mechanism.published.labels[int(table.published[found.published])]
    x, z = (mechanism.domain.labels[int(table.codes[code])] for code in (found.code, found.rival))
    return published, x, z


def _uniform(mechanism: Mechanism, found: Nearest) -> Iterator[str]:
    """Yield the retention where it follows from gamma and the number of values alone.

    p = (gamma - 1)/(m - 1 + gamma)
    """
    table = mechanism.tables[found.table]
    matrix = table.matrix
    if matrix.retention is None or not matrix.is_uniform or found.gamma != strictest_gamma(table.bounds):
        return
    m, most = matrix.size, (found.gamma - 1) / (matrix.size - 1 + found.gamma)
    yield (
        f"The largest retention that keeps it: p = (gamma - 1)/(m - 1 + gamma) = {number(found.gamma - 1)}/({m - 1:,} "
        f"+ {number(found.gamma)}) = {float(most):.6g}; here p = {float(matrix.retention[0]):.6g}"
    )
    yield f"P[x, x] = p + (1 - p)/m = {float(matrix.diagonal[0]):.6g}; every other value has (1 - p)/m"


def _belief(bound: Bound, directions: Sequence[Direction]) -> tuple[str, ...]:
    """Return Bayes' rule with the strictest bound put in."""
    assert bound.gamma is not None
    rho1 = Fraction(1, 10) if bound.rho1 is None else bound.rho1
    after = bound.gamma * rho1 / (1 - rho1 + bound.gamma * rho1)
    back = () if "downward" not in directions else ("The other way round, odds fall to no less than 1/gamma of them.",)
    return (
        "odds after seeing y = P[y, x] Pr[x] / sum of P[y, z] Pr[z] over z other than x <= gamma * odds before",
        f"A belief of {number(rho1)} before: at most gamma rho1/(1 - rho1 + gamma rho1) = {number(after)} after.",
        *back,
    )


def of_product(columns: Sequence[str], ratios: Sequence[Fraction | None]) -> Step:
    """Return what all columns read together can do: their factors multiply."""
    told = [
        f"{name}: {'no limit' if ratio is None else number(ratio)}" for name, ratio in zip(columns, ratios, strict=True)
    ]
    known = [ratio for ratio in ratios if ratio is not None]
    whole = number(math.prod(known, start=Fraction(1))) if len(known) == len(ratios) else "no limit"
    return Step(
        "All columns read together: each is drawn by itself, so the largest ratios of two chances multiply",
        (*told, f"together: {whole}"),
    )


# --- groups, and the risk of linking ----------------------------------------------------------------------------------


def of_buckets(value: str, most: Fraction, columns: Sequence[str]) -> Iterator[Step]:
    """Yield what each group keeps, and the belief that follows; `columns` are those that its records agree in."""
    asked = f"n(g, x) / n(g) <= {number(most)}, for each group g and each {value} x"
    yield Step("What each group keeps: n(g, x) of its n(g) records have x", (asked,))
    alike = f"The records of a group agree in {', '.join(columns)}: what is believed by these is alike for all of them."
    told = alike if columns else "Beforehand all ways to give the values of a group to its records are equally likely."
    belief = f"belief after seeing the release that a record of g has x = n(g, x) / n(g) <= {number(most)}"
    yield Step("So the promise holds", (told, belief))


SHARE = "h(b, u) = sum over a of P[b, a] pi(a, u) / sum over a of P[b, a] pi(a)"
RISKS = {
    "posterior": (SHARE, "Someone who sees b believes in u with h(b, u), by Bayes' rule."),
    "link": (SHARE, "Someone who links a person of a hits u with sum over b of P[b, a] h(b, u)."),
    "reconstruction": (
        "pi(u given a), times the chance to draw the true a from the published row, times the chance to draw the true",
        "u from it: AD Eq. (6)",
    ),
}


def of_risk(risk: str, limit: Fraction, groups: int, mechanisms: Sequence[Mechanism]) -> Iterator[Step]:
    """Yield the matrices of the columns, and the risk that they keep within its limit."""
    stay = ((m.domain.name, m.domain.size, float(m.matrix.diagonal[0])) for m in mechanisms)
    yield Step(
        "One matrix for each column: of d values, a value stays with the chance D, else it is one of the others",
        (
            "P[a, a] = D, P[b, a] = (1 - D)/(d - 1); those of several columns multiply",
            *(f"{name}: d = {size:,}, D = {diagonal:.4f}" for name, size, diagonal in stay),
        ),
    )
    own = (f"{groups:,} group(s) of people have limits of their own.",) if groups else ()
    yield Step(
        "The risk: pi(a, u) is the share of the records with quasi-identifiers a and the value u",
        (
            *RISKS[risk],
            f"The largest is at most {number(limit)}: only the publisher, who has the table, can see it.",
            *own,
        ),
    )


def number(x: Fraction) -> str:
    """Return a number as a fraction where that is short, else with six digits.

    >>> number(Fraction(27, 7)), number(Fraction(3)), number(Fraction(10**9 + 1, 3 * 10**8))
    ('27/7', '3', '3.33333')
    """
    return str(x) if x.denominator < 100 and x.numerator < 10_000 else f"{float(x):.6g}"
