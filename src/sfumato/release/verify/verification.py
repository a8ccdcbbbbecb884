"""What a release proves by itself, re-checked; and what only an audit with the private table can show.

The guarantee is re-checked with exact integers on the published matrix. That the rows were really drawn with it
cannot be seen from outside; that the published frequencies are possible under it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from sfumato.claims.guarantee import (
    Direction,
    Guarantee,
    exceeds_any_predicate,
    state_guarantee,
    state_partition_guarantee,
    state_response_guarantee,
    violations,
)
from sfumato.claims.second_release import second_of, second_response
from sfumato.errors import UsageError
from sfumato.release.checks import Check, Verification, differing, due_facts, outcome, treatments_fit
from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import ResponsePart
from sfumato.release.reading import connected, quoted
from sfumato.release.verify import buckets as verification_groups
from sfumato.release.verify.copies import no_copies
from sfumato.release.verify.files import as_published, carried
from sfumato.release.verify.order import random_order
from sfumato.values.computed import OBSERVED_RHO1, RESPONSE_MATRICES, SUB_TABLE_MATRICES, SUB_TABLES
from sfumato.values.matrix.grid import is_on_grid
from sfumato.values.matrix.retention import amplification
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import Bound

PERTURBATIONS = ("uniform", "fine-grain")
SMALL_DOMAIN = "small-domain"
RESPONSE = "randomized-response"

NEEDED_FOR_ORDER = ("columns", "rows", "data", "domain", "group")
"""Checks, by the beginning of their names, that must hold before the order of the rows can be looked at."""
FALSE_ALARM = 1e-9
"""Probability with which the check of the published frequencies fails on a release that was drawn as it says."""


def verify(release: ReleaseFolder) -> Verification:
    """Check a release: checksums, columns, rows, domain, frequencies, and the guarantee on the integer matrix."""
    by_groups = release.manifest.groups is not None
    checks = [*as_published(release)]
    checks += verification_groups.stated(release) if by_groups else _guarantee(release)
    if all(check.status == "holds" for check in checks if check.name.startswith(("checksum of", "matrix"))):
        checks += _content(release, verification_groups.files if by_groups else _rows)
        if all(check.status == "holds" for check in checks if check.name.startswith(NEEDED_FOR_ORDER)):
            checks += random_order(release)
            checks += [] if by_groups else no_copies(release)
    return Verification((*checks, *(verification_groups.private(release) if by_groups else _private(release))))


def _content(release: ReleaseFolder, rows: Callable[[ReleaseFolder], Iterator[Check]]) -> list[Check]:
    """Check what the files hold, by their rows and by what else they carry; what cannot be read is told once."""
    checks: list[Check] = []
    for look in (rows, carried):
        try:
            checks += [*look(release)]
        except UsageError as problem:
            checks.append(Check("data", "fails", problem.message))
    return list(dict.fromkeys(checks))


def _guarantee(release: ReleaseFolder) -> Iterator[Check]:
    manifest = release.manifest
    try:
        mechanisms = manifest.mechanism_values
    except (ArithmeticError, IndexError, ValueError, UsageError) as problem:
        yield Check("matrix", "fails", f"The matrix cannot be read: {problem}.")
        return
    tables = [table for mechanism in mechanisms for table in mechanism.tables]
    columns = sum(table.matrix.size for table in tables)
    of_tables = f" in {len(tables)} sub-tables" if mechanisms[0].label else ""
    of_tables = f" in {len(mechanisms)} matrices" if len(mechanisms) > 1 else of_tables
    yield Check("matrix", "holds", f"{columns} columns of integers{of_tables}, each summing to 2^64.")
    if manifest.response is not None:
        yield _stated_response(release, manifest.response, mechanisms)
    else:
        yield from _bounds(release, mechanisms)
    for mechanism, part in zip(mechanisms, manifest.mechanisms, strict=True):
        stated, real = part.epsilon, mechanism.epsilon
        same = (stated is None) == math.isinf(real) and (stated is None or math.isclose(stated, real))
        yield outcome(
            _of("epsilon", mechanism, mechanisms),
            same,
            f"{_shown(stated)}, as stated.",
            f"{_shown(real)}, not {_shown(stated)}.",
        )
    secret = manifest.status == "release"
    yield outcome("secret key", secret, "Drawn from a secret key.", "Drawn from a test seed: not for release.")


def _of(what: str, mechanism: Mechanism, mechanisms: Sequence[Mechanism]) -> str:
    """Return the name of a check, with the columns where there are several mechanisms."""
    return what if len(mechanisms) == 1 else f"{what} of {mechanism.domain.name}"


def _bounds(release: ReleaseFolder, mechanisms: Sequence[Mechanism]) -> Iterator[Check]:
    """The bounds on the odds of values, on the integers of the one mechanism."""
    manifest, mechanism = release.manifest, mechanisms[0]
    yield _consistent(mechanism, manifest.method)
    yield _stated(release, mechanisms)
    for direction in _due_guarantee(release, mechanism).directions:
        yield _kept(mechanism, direction)
    if manifest.guarantee.scope == "any predicate":
        table = mechanism.tables[0]
        yield outcome(
            "guarantee, any predicate",
            mechanism.is_whole and table.matrix.is_uniform and not exceeds_any_predicate(table.matrix, table.bounds),
            "No two entries of a row of the matrix differ by more than the strictest factor, in exact integers.",
            "The odds of some statement can change by more than the strictest factor.",
        )


def _consistent(mechanism: Mechanism, method: str) -> Check:
    """A gamma must be what its rho1 and rho2 give; those of sub-tables have both, and one rho2."""
    bounds = {bound for table in mechanism.tables for bound in table.bounds if bound.gamma is not None}
    wrong = [
        bound
        for bound in bounds
        if (bound.rho1 is None) != (bound.rho2 is None)
        or (bound.rho1 and bound.rho2 and not _follows(bound, bound.rho1, bound.rho2))
        or (method == SMALL_DOMAIN and bound.rho1 is None)
    ]
    one = method != SMALL_DOMAIN or len({bound.rho2 for bound in bounds}) == 1
    return outcome(
        "bounds",
        one and not wrong,
        "Every gamma is what its rho1 and rho2 give.",
        f"Gamma is not what rho1 and rho2 give, in {len(wrong)} bound(s)." if wrong else "There are several rho2.",
    )


def _follows(bound: Bound, rho1: Fraction, rho2: Fraction) -> bool:
    return 0 < rho1 < rho2 < 1 and bound.gamma == amplification(rho1, rho2)


def _kept(mechanism: Mechanism, direction: Direction) -> Check:
    """The bound of every value of every sub-table must hold on its integers."""
    required, broken = set(), []
    for table in mechanism.tables:
        codes = table.codes.tolist()
        required |= {code for code, bound in zip(codes, table.bounds, strict=True) if bound.gamma is not None}
        broken += [codes[v.code] for v in violations(table.matrix, table.bounds, (direction,))]
    return outcome(
        f"guarantee, {direction}",
        bool(required) and not broken,
        f"The bound holds for all {len(required)} values that have one, in exact integers.",
        f"The bound is broken for {', '.join(repr(mechanism.domain.labels[c]) for c in broken[:5])}."
        if required
        else "No value has a bound: nothing is guaranteed.",
    )


def _due_guarantee(release: ReleaseFolder, mechanism: Mechanism) -> Guarantee:
    manifest = release.manifest
    if manifest.method == SMALL_DOMAIN:
        rho1 = Fraction(manifest.mechanism.rho1 or 0)
        return state_partition_guarantee(mechanism, manifest.assurance, rho1)
    table = mechanism.tables[0]
    return state_guarantee(
        mechanism.domain, table.bounds, table.matrix, manifest.method, manifest.assurance, manifest.computed_from_table
    )


def _stated_response(release: ReleaseFolder, response: ResponsePart, mechanisms: Sequence[Mechanism]) -> Check:
    """The stated guarantee must follow from risk, limits and columns; the matrices must be those of the method.

    That the limit is kept depends on the private table.
    """
    manifest = release.manifest
    try:
        due = state_response_guarantee(response.claim, mechanisms)
    except UsageError as problem:
        return Check("guarantee, as stated", "fails", f"The limit cannot be read: {problem.message}")
    wrong = differing(manifest.guarantee_value, due)
    good = {
        "assurance": (response.risk == "reconstruction") == (manifest.assurance == "as-published"),
        "computed_from_table": {RESPONSE_MATRICES, *due_facts(manifest)} <= set(manifest.computed_from_table),
        "from_table": manifest.from_table,
        "discloses_frequencies": manifest.discloses_frequencies,
        "shuffled": manifest.data.shuffled,
        "method": manifest.method == RESPONSE and all(part.kind == RESPONSE for part in manifest.mechanisms),
        "scope": {mechanism.domain.names for mechanism in mechanisms} <= _in_scope(response),
        "matrices": all(m.is_whole and is_on_grid(m.matrix) and m.matrix.noise[0] > 0 for m in mechanisms),
        "treatments": treatments_fit(manifest),
        "second_release": manifest.second_release in [second_response(mechanisms, keyed) for keyed in (False, True)],
        "columns": {*response.quasi_identifiers, *response.sensitive} <= set(release.column_names),
    }
    wrong += [name for name, is_good in good.items() if not is_good]
    return outcome(
        "guarantee, as stated",
        not wrong,
        "It is what follows from the method, the risk, its limits and the columns.",
        f"Not what follows from the method, the risk, its limits and the columns: {', '.join(wrong)}.",
    )


def _in_scope(response: ResponsePart) -> set[tuple[str, ...]]:
    """Return the columns that may be randomized: each quasi-identifier by itself, the sensitive ones together."""
    quasi = {(name,) for name in response.quasi_identifiers} if response.scope != "sensitive" else set()
    return quasi | ({response.sensitive} if response.scope != "quasi-identifiers" else set())


def _stated(release: ReleaseFolder, mechanisms: Sequence[Mechanism]) -> Check:
    """The stated guarantee must be the one that follows from method, assurance, bounds and matrices."""
    manifest, mechanism = release.manifest, mechanisms[0]
    guarantee = _due_guarantee(release, mechanism)
    wrong = differing(manifest.guarantee_value, guarantee)
    wrong += [] if treatments_fit(manifest) else ["treatments"]
    due = {*due_facts(manifest), *((SUB_TABLES, SUB_TABLE_MATRICES) if manifest.method == SMALL_DOMAIN else ())}
    due |= set() if manifest.method == SMALL_DOMAIN or not manifest.discloses_frequencies else {OBSERVED_RHO1}
    wrong += ["computed_from_table"] if not due <= set(manifest.computed_from_table) else []
    wrong += ["from_table"] if manifest.from_table != bool(manifest.computed_from_table) else []
    if manifest.method == SMALL_DOMAIN:
        wrong += [] if manifest.discloses_frequencies else ["discloses_frequencies"]
        has_minimum = manifest.mechanism.minimum_sub_table is not None
        due_minimum = manifest.assurance == "proved" and mechanism.label is not None
        wrong += [] if has_minimum == due_minimum else ["minimum_sub_table"]
        rho2 = max((bound.rho2 for bound in mechanism.bounds if bound.rho2 is not None), default=Fraction(1))
        wrong += [] if 0 < Fraction(manifest.mechanism.rho1 or 0) < rho2 else ["rho1"]
    kind = "small-domain" if manifest.method == SMALL_DOMAIN else "perturbation"
    known = len(mechanisms) == 1 and manifest.mechanism.kind == kind
    known &= manifest.method == SMALL_DOMAIN or (manifest.method in PERTURBATIONS and mechanism.is_whole)
    if known and any(bound.gamma is not None for bound in mechanism.bounds):
        both = (False, True) if manifest.method in PERTURBATIONS else (False,)
        second = [second_of(mechanisms, guarantee.directions, keyed) for keyed in both]
        wrong += [] if manifest.second_release in second else ["second_release"]
    return outcome(
        "guarantee, as stated",
        not wrong and known,
        "It is what follows from the method, the bounds and the matrix.",
        f"Not what follows from the method, the bounds and the matrix: {', '.join(wrong) or 'method'}.",
    )


def _rows(release: ReleaseFolder) -> Iterator[Check]:
    manifest, mechanisms = release.manifest, release.manifest.mechanism_values
    randomized = [*manifest.randomized, *(m.label for m in mechanisms if m.label)]
    with connected(release) as connection:
        names = [row[0] for row in connection.sql("DESCRIBE release").fetchall()]
        total = connection.sql("SELECT count(*) FROM release").fetchall()[0][0]
        # a data file without the randomized columns is told by the check of the columns
        present = set(randomized) <= set(names)
        counted = [connection.sql(_count_query(m)).fetchall() if present else [] for m in mechanisms]
    yield outcome(
        "columns",
        names == list(release.column_names),
        f"{len(names)} columns, as stated.",
        f"They are {names}.",
    )
    yield outcome("rows", total == manifest.data.rows, f"{total:,} rows, as stated.", f"{total:,} rows, not as stated.")
    if not present:
        yield Check("domain", "fails", f"The data lack one of {randomized}.")
        return
    for mechanism, rows in zip(mechanisms, counted, strict=True):
        yield from _drawn(release, mechanism, mechanisms, rows)


def _count_query(mechanism: Mechanism) -> str:
    select = ", ".join(quoted(n) for n in mechanism.domain.names)
    label = f"TRY_CAST({quoted(mechanism.label)} AS INTEGER)" if mechanism.label else "1"
    return f"SELECT {select}, {label} AS label, count(*) FROM release GROUP BY ALL"


def _drawn(
    release: ReleaseFolder, mechanism: Mechanism, mechanisms: Sequence[Mechanism], counted: list[Any]
) -> Iterator[Check]:
    """What a mechanism published must lie in its domain, and be possible under its matrices."""
    domain = mechanism.domain
    observed, outside = _by_sub_table(mechanism, counted)
    yield outcome(
        _of("domain", mechanism, mechanisms),
        not outside,
        f"Every published {domain.name} is one of {domain.size} values"
        + (", and one of its sub-table's." if mechanism.label else "."),
        f"{len(outside)} published value(s) lie outside the domain, e.g. {outside[:3]}.",
    )
    if outside or not counted:
        return
    cells = sum(table.codes.size for m in mechanisms for table in m.tables)
    yield _possible(_of("published frequencies", mechanism, mechanisms), mechanism, observed, cells)
    if least := release.manifest.mechanism.minimum_sub_table:
        smallest = min(sum(of_table.values()) for of_table in observed)
        yield outcome(
            "sub-table sizes",
            smallest >= least,
            f"Each has at least {least:,} rows; the smallest {smallest:,}.",
            f"The smallest has {smallest:,} rows, fewer than the stated {least:,}.",
        )


def _by_sub_table(mechanism: Mechanism, counted: list[Any]) -> tuple[list[dict[int, int]], list[Any]]:
    """Return the published rows of each value in each sub-table, and the values that are in none or in another."""
    domain, outside = mechanism.domain, []
    observed: list[dict[int, int]] = [dict.fromkeys(table.codes.tolist(), 0) for table in mechanism.tables]
    for *key, label, rows in counted:
        value = tuple(key) if len(key) > 1 else key[0]
        code = domain.index.get(value, -1)
        if label is None or not 1 <= label <= len(observed) or code not in observed[label - 1]:
            outside.append((value, label) if mechanism.label else value)
        else:
            observed[label - 1][code] += rows
    return observed, outside


def _possible(name: str, mechanism: Mechanism, observed: list[dict[int, int]], cells: int) -> Check:
    """Every value's share of its sub-table must lie between what it gets from no record and what from all.

    `cells` are the values of all sub-tables of all mechanisms: the false alarm is for all of them together.
    """
    odd, widest = [], 0.0
    for number, (table, of_table) in enumerate(zip(mechanism.tables, observed, strict=True), start=1):
        matrix, total = table.matrix, sum(of_table.values())
        if not total:
            continue
        margin = math.sqrt(math.log(2 * cells / FALSE_ALARM) / (2 * total))  # Hoeffding, for all values at once
        widest = max(widest, margin)
        for place, (code, rows) in enumerate(of_table.items()):
            if not matrix.least_chance[place] - margin <= rows / total <= matrix.diagonal[place] + margin:
                value = repr(mechanism.domain.labels[code])
                odd.append(f"{value} in sub-table {number}" if mechanism.label else value)
    return outcome(
        name,
        not odd,
        f"Each value's share is possible under the matrix (within {widest:.2g}; false alarm {FALSE_ALARM:g}).",
        f"Impossible under the matrix for {', '.join(odd[:5])}: the column was not drawn with it.",
    )


def _private(release: ReleaseFolder) -> Iterator[Check]:
    manifest = release.manifest
    columns = ", ".join(repr(part.name) for mechanism in manifest.mechanisms for part in mechanism.domain)
    yield Check(
        "drawing",
        "needs audit",
        f"That {columns} was drawn with this matrix, each row by itself, from a secret key."
        if len(manifest.mechanisms) == 1
        else f"That {columns} were drawn with these matrices, each row and column by itself, from a secret key.",
    )
    if manifest.response is not None:
        yield Check(
            "risk",
            "needs audit",
            f"That the risk {manifest.response.risk} of the table, with these matrices, is within its limit.",
        )
    if release.manifest.mechanism.sub_table_column:
        yield Check(
            "dealing",
            "needs audit",
            "That records were dealt to sub-tables at random, that no protected value has a larger share of its "
            "sub-table than its rho1, and how far one who knows a sub-table's composition could exceed rho2.",
        )
    if not release.manifest.data.shuffled:
        yield Check("row order", "needs audit", "That the order of the rows tells nothing of the sensitive value.")
    yield Check("other columns", "needs audit", "That no untouched column predicts the sensitive value.")
    yield Check("one row per person", "needs audit", "That nobody has several rows, or that this was meant.")


def _shown(x: float | None) -> str:
    return "infinite" if x is None or math.isinf(x) else f"{x:.6g}"
