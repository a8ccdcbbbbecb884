"""What a survey found, and how it is told. The names of the fields are the keys of `sfumato profile --json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.show.screen import Screen
from sfumato.show.words import listed, of_100, share
from sfumato.values.attributes import Role
from sfumato.values.looks import Stop
from sfumato.values.profile import Uniqueness
from sfumato.values.text import indented

CLEAR_Z = 4.0  # from which on a column is seen to tell of the value
SHOWN = 12
PLAIN_TYPES = (
    "text",
    "text (codes)",
    "text (whole numbers)",
    "text (numbers)",
    "whole numbers",
    "numbers",
    "true/false",
)
"""Types of columns that can be randomized."""


MOST_COLUMNS = 10  # of a table without a policy, on the first screen
NEXT = (
    "This is all that can be told without a policy. Next: `sfumato init TABLE --sensitive COLUMN -o policy.toml` "
    "proposes one. With it, `sfumato profile TABLE policy.toml` shows who can be found, which columns tell the secret, "
    "and what can be promised."
)
"""What to do where there is no policy yet."""
ROLE_WORDS = {
    "identifier": "Left out",
    "drop": "Left out",
    "quasi_identifier": "Others may know (published)",
    "sensitive": "Secret",
    "other": "Published as it is",
}


@dataclass(frozen=True)
class Column:
    """A column as it stands in the table. Numbers are told of text too: a CSV file holds nothing else."""

    name: str
    type: str
    role: Role | None  # None without a policy
    distinct: int  # different values, the missing one not counted
    missing: int  # null or NaN
    looks_missing: int  # texts such as "?" or "NA", which the policy does not call missing
    missing_texts: tuple[str, ...]  # and which ones
    numbers: int  # values that are finite numbers, or texts that can be read as one
    whole: bool  # these are whole numbers, all of them
    low: float | None  # of the numbers
    high: float | None


@dataclass(frozen=True)
class ValueShare:
    """A sensitive value and how frequent it is."""

    value: str
    records: int
    share: float


@dataclass(frozen=True)
class RareValue:
    """A value of an observed domain that few records have: the domain itself tells that it occurs."""

    column: str
    value: str
    records: int


@dataclass(frozen=True)
class Sensitive:
    """The skew of the sensitive attribute, and what it allows."""

    columns: tuple[str, ...]
    records: int
    dropped: int  # rows without a value, left out by the policy
    values: int  # m
    observed: tuple[str, ...]  # the columns whose domain is read off the table
    unused: int  # values (or combinations) of the domain that no record has
    most_frequent: tuple[ValueShare, ...]
    largest_share: float
    entropy: float  # 0: one value has all records; 1: all values are equally frequent
    eligible_l: int  # the largest l such that no value exceeds a share of 1/l
    rare: tuple[RareValue, ...]
    ordered: bool = False  # whether all values are numbers, bins or periods, or the policy states their order
    least_frequent: tuple[ValueShare, ...] = ()  # the rarest of the others that occur, the rarest first


@dataclass(frozen=True)
class RowOrder:
    """The test of the row order."""

    dependent: bool
    p_value: float
    statement: str


@dataclass(frozen=True)
class Predictor:
    """How well one published column tells the sensitive value of records that were not learned from."""

    column: str
    role: Role
    hit_rate: float
    baseline: float  # by the overall most common value
    z: float  # of the difference, McNemar's
    information: float  # bits per record that the column tells of the value; about 0 or below: none
    information_z: float
    clear: bool  # z and the gain are both large, of the hit rate or of the information


@dataclass(frozen=True)
class Prediction:
    """All predictors, best first, and on how many records they were tried."""

    learned: int
    tried: int
    predictors: tuple[Predictor, ...]


@dataclass(frozen=True)
class Persons:
    """How many rows a person has."""

    column: str
    repeated: str  # what the policy says of persons with several rows
    persons: int
    with_several_rows: int
    mean_rows: float
    most_rows: int


@dataclass(frozen=True)
class Findings:
    """What is wrong with columns as a policy would publish them, each where it is."""

    stops: tuple[Stop, ...]  # columns that tell who people are
    rare: tuple[RareValue, ...]
    prediction: Prediction
    persons: Persons | None
    refused: tuple[str, ...]  # why publishing would stop at values of a column
    notes: tuple[str, ...]  # what to know of how columns are made coarser


@dataclass(frozen=True)
class Feasible:
    """What a method makes of a requirement on this table; `reason` says why it can't be met, "" if it can."""

    method: str
    assurance: str
    requirement: str
    from_policy: bool
    retention_low: float | None = None
    retention_high: float | None = None
    record_utility: float | None = None  # expected share of unchanged records
    invertible: bool | None = None  # whether unbiased estimates with error bars exist
    total_variation: float | None = None  # expected, of the estimated distribution
    sets: bool = (
        False  # whether sets of values are published: the record utility is then the share that holds the true one
    )
    published_share: float | None = None  # of the records, where they are published in groups, with true values
    reason: str = ""


@dataclass(frozen=True)
class Off:
    """What analysts would be off by where odds change by at most gamma; `reason`: why there is no figure.

    Roots of mean squares: of a count over all values, of the share of records up to a value over all values, and of
    the mean place in the order, as a part of the range. The last two are None where there is no order.
    """

    method: str
    gamma: float | None = None
    count: float | None = None
    share: float | None = None
    mean: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Survey:
    """What `sfumato profile` shows. Private. Without a policy, the optional parts are None."""

    table: str
    rows: int
    columns: tuple[Column, ...]
    warnings: tuple[str, ...]
    uniqueness: Uniqueness | None = None
    sensitive: Sensitive | None = None
    row_order: RowOrder | None = None
    prediction: Prediction | None = None
    persons: Persons | None = None
    feasibility: tuple[Feasible, ...] | None = None
    errors: tuple[Off, ...] | None = None
    apart: tuple[Sensitive, ...] = ()  # sensitive columns with a method of their own

    def to_dict(self) -> dict[str, Any]:
        """Return the survey as JSON-ready values; the keys are the names of the fields."""
        return asdict(self)

    def summary(self) -> Screen:
        """Return the first screen: what to look at, the columns by role, the secret, and what the policy would give."""
        return Screen(tuple(_first(self)), self.warnings, "Look at this first")

    def explain(self) -> str:
        """Return the survey in plain words: what to look at first, then all figures."""
        parts = [
            [f"{self.table}: {self.rows:,} rows, {len(self.columns):,} columns. Private: not for release."],
            ["Look at this first", *(indented(warning, "  ! ") for warning in self.warnings)] if self.warnings else [],
            _columns(self.columns),
            _uniqueness(self.uniqueness) if self.uniqueness else [],
            _sensitive(self.sensitive) if self.sensitive else [],
            *map(_sensitive, self.apart),
            ["Row order", indented(self.row_order.statement)] if self.row_order else [],
            _prediction(self.prediction) if self.prediction and self.prediction.predictors else [],
            _persons(self.persons) if self.persons else [],
            _errors(self.errors) if self.errors else [],
            _feasibility(self.feasibility) if self.feasibility else [],
            [NEXT] if self.feasibility is None else [],
        ]
        return "\n\n".join("\n".join(part) for part in parts if part)


def _first(survey: Survey) -> Iterator[str]:
    """Yield what matters of a table, a line each."""
    yield f"{survey.table}: {survey.rows:,} rows, {len(survey.columns):,} columns. Private: not for release."
    yield from _by_role(survey.columns) if survey.feasibility is not None else _columns_alone(survey.columns)
    if found := survey.uniqueness:
        yield found.sentence
    for secret in (survey.sensitive, *survey.apart):
        if secret is not None:
            most = secret.most_frequent[0]
            yield (
                f"{' / '.join(secret.columns)} has {secret.values:,} values. The most frequent is {_cut(most.value)!r} "
                f"with {most.records:,} records ({share(most.share)})."
            )
    if own := next((case for case in survey.feasibility or () if case.from_policy), None):
        yield _own_case(own)
    if survey.feasibility is None:
        yield ""
        yield NEXT


def _columns_alone(columns: Sequence[Column]) -> Iterator[str]:
    """Yield what is known of columns without a policy, of as many as a screen has room for."""
    head, *lines = _columns(columns[:MOST_COLUMNS])
    yield from ("", head, *lines)
    if (more := len(columns) - MOST_COLUMNS) > 0:
        yield f"  ... and {more:,} more"


def _by_role(columns: Sequence[Column]) -> Iterator[str]:
    """Yield the columns of each role."""
    roles: dict[str, list[str]] = {}
    for column in columns:
        roles.setdefault(ROLE_WORDS[column.role or "other"], []).append(_cut(column.name))
    yield from (f"{role}: {listed(names)}" for role, names in roles.items())


def _own_case(case: Feasible) -> str:
    """Return what the policy's own requirement would give."""
    if case.reason:
        return f"The policy ({case.method}) cannot be met on this table."
    if case.published_share is not None:
        part = share(case.published_share, 0)
        return f"The policy ({case.method}) would publish {part} of the records, with true values."
    bars = "with error bars" if case.invertible else "without error bars"
    if case.record_utility is None:
        return f"The policy ({case.method}) lets counts be estimated {bars}."
    some = of_100(case.record_utility)
    kept = f"publish sets of values: {some} hold the true one" if case.sets else f"keep {some} values true"
    return f"The policy ({case.method}) would {kept}. Counts can be estimated {bars}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return aligned lines; the first `left` columns to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = []
    for cells in (head, *rows):
        aligned = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(cells, widths, strict=True))]
        lines.append(("  " + "  ".join(aligned)).rstrip())
    return lines


def _cut(text: str, most: int = 40) -> str:
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= most else text[: most - 3] + "..."


def _columns(columns: Sequence[Column]) -> list[str]:
    roles = any(c.role for c in columns)
    head = ["column", *(["role"] if roles else []), "type", "different values", "missing"]
    rows = [
        [_cut(c.name), *([c.role or ""] if roles else []), c.type, f"{c.distinct:,}", f"{c.missing:,}"] for c in columns
    ]
    return ["Columns", *_table(head, rows, 3 if roles else 2)]


def _uniqueness(u: Uniqueness) -> list[str]:
    names = ", ".join(u.quasi_identifiers)
    return [
        "Uniqueness of the quasi-identifiers, as they would be published",
        indented(f"{u.combinations:,} combinations of {names} in {u.records:,} records."),
        indented(
            f"{u.unique_records:,} records ({share(u.unique_share, 2)}) are alone in their combination. The "
            f"smallest group has {u.smallest_group:,}, the median group {u.median_group:g} record(s); half "
            f"of the records are in groups of at most {u.median_record_group:,}."
        ),
    ]


def _sensitive(s: Sensitive) -> list[str]:
    name = " / ".join(s.columns)
    domain = f"read off the table ({', '.join(s.observed)})" if s.observed else "declared"
    facts = f"{s.records:,} records, {s.values:,} values, {domain}"
    facts += f"; {s.unused:,} of them nobody has" if s.unused else ""
    facts += "; they are in order" if s.ordered else "; they are in no order"
    facts += f"; {s.dropped:,} rows without a value are left out" if s.dropped else ""
    return [
        f"Sensitive: {name}",
        indented(facts + "."),
        *_frequencies("most frequent", s.most_frequent),
        *(_frequencies("rarest", s.least_frequent) if s.least_frequent else []),
        indented(
            f"The largest share is {share(s.largest_share, 2)}; entropy {s.entropy:.2f} of 1 (1: all values "
            "equally frequent)."
        ),
        indented(_eligibility(s)),
    ]


def _frequencies(title: str, values: Sequence[ValueShare]) -> list[str]:
    rows = [[_cut(v.value), f"{v.records:,}", share(v.share, 2)] for v in values]
    return _table([title, "records", "share"], rows, 1)


def _eligibility(s: Sensitive) -> str:
    if s.eligible_l > 1:
        return (
            f"Eligibility: group-based methods (Anatomy) can reach l = {s.eligible_l} without suppression: "
            f"no value exceeds a share of 1/{s.eligible_l}."
        )
    return (
        "Eligibility: group-based methods (Anatomy) cannot protect it without suppression (l = 1): "
        f"{s.most_frequent[0].value!r} has more than half of all records. Perturbation needs no eligibility."
    )


def _prediction(p: Prediction) -> list[str]:
    return [
        "Columns that tell the sensitive value",
        indented(
            f"Learned on {p.learned:,} records, tried on {p.tried:,} others: the share of right guesses by "
            f"one column alone. The most common value alone is right for {share(p.predictors[0].baseline, 2)}. Bits: "
            "what the column tells of the value per record, also where it shifts the odds but not the best guess."
        ),
        *_predictors(p, "other"),
        *_predictors(p, "quasi_identifier"),
        indented(
            f"Clear: z above {CLEAR_Z:g}, and more than one point or 0.05 bits; a little: z alone. What a column tells "
            "only together with others is not seen here: not clear is not independent."
        ),
    ]


def _predictors(p: Prediction, role: str) -> list[str]:
    rows = [
        [
            _cut(x.column),
            share(x.hit_rate, 2),
            f"{100 * (x.hit_rate - x.baseline):+.2f}",
            f"{x.z:.1f}",
            f"{x.information:.3f}",
            f"{x.information_z:.1f}",
            "yes" if x.clear else "a little" if max(x.z, x.information_z) > CLEAR_Z else "no",
        ]
        for x in p.predictors
        if x.role == role
    ]
    if not rows:
        return []
    more = [f"  ... and {len(rows) - SHOWN} weaker ones"] if len(rows) > SHOWN else []
    return [*_table([role, "right", "gain (points)", "z", "bits", "z (bits)", "clear"], rows[:SHOWN], 1), *more]


def _persons(p: Persons) -> list[str]:
    return [
        f"Persons ({p.column})",
        indented(
            f"{p.persons:,} persons, {p.mean_rows:.2f} rows each on average, {p.most_rows:,} at most; "
            f"{p.with_several_rows:,} have several rows. The policy says: {p.repeated}."
        ),
    ]


def _errors(errors: Sequence[Off]) -> list[str]:
    """Return a line for each method, with each kind of error at each gamma."""
    known = [e for e in errors if e.gamma is not None]
    gammas = [f"{gamma:.2g}" for gamma in sorted({e.gamma or 0 for e in known})]
    kinds = [kind for kind in OFF if any(getattr(e, kind) is not None for e in known)]
    of_method: dict[str, list[Off]] = {}
    for e in known:
        of_method.setdefault(e.method, []).append(e)
    head = ["method", *(f"{kind} at {gamma}" for kind in kinds for gamma in gammas)]
    rows = [[name, *(_off(e, kind) for kind in kinds for e in found)] for name, found in of_method.items()]
    legend = " ".join(OFF[kind] for kind in kinds)
    return [
        f"What analysts would be off by, where odds may change by at most {_joined(gammas)} times",
        *_table(head, rows, 1),
        *(indented(f"{', '.join(names)}: {reason}") for reason, names in _reasons(errors).items()),
        indented(f"{legend} All methods with figures make the same promise, about any statement."),
    ]


OFF = {
    "count": "Count: of one value, typically (the root of the mean square over all values).",
    "share": "Share: of the records whose value is at most some value.",
    "mean": "Mean: of the places in the order, as a part of the range.",
}
"""What errors are of."""


def _off(e: Off, kind: str) -> str:
    number = getattr(e, kind)
    if number is None:
        return "-"
    return f"{number:,.0f}" if kind == "count" else share(number, 2)


def _joined(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} or {last}" if first else last


def _reasons(errors: Sequence[Off]) -> dict[str, list[str]]:
    """Return the methods without figures, those with the same reason together."""
    found: dict[str, list[str]] = {}
    for e in errors:
        if e.reason:
            found.setdefault(e.reason, []).append(e.method)
    return found


def _feasibility(cases: Sequence[Feasible]) -> list[str]:
    head = ["requirement", "method", "retention", "record utility", "inverse", "total variation"]
    return [
        "What is feasible",
        *_table(head, [_case(case) for case in cases], 2),
        *(indented(f"{_name(case)}, {case.method}: {case.reason}") for case in cases if case.reason),
        indented(_LEGEND),
    ]


_LEGEND = (
    "Retention: the probability that a value is kept rather than drawn anew, smallest to largest over the values. "
    "Record utility: the expected share of unchanged records. Inverse: whether unbiased counts with error bars exist. "
    "Total variation: the expected distance of the estimated distribution from the true one; near 1 or above, single "
    "counts cannot be told from noise. In groups: so many records are published, with true values, and it is hidden "
    "which record of a group has which. tolerance = 3: no belief rises to more than three times the value's own share "
    "in this table (which the release then discloses)."
)


def _name(case: Feasible) -> str:
    return f"{case.requirement} (policy)" if case.from_policy else case.requirement


def _case(case: Feasible) -> list[str]:
    method = case.method + ("" if case.assurance == "proved" else f", {case.assurance}")
    if case.published_share is not None:
        return [_name(case), method, f"{share(case.published_share)} in groups", "-", "-", "-"]
    if case.retention_low is None or case.retention_high is None:
        return [_name(case), method, "cannot be met", "", "", ""]
    low, high = share(case.retention_low), share(case.retention_high)
    distance = "-" if case.total_variation is None else f"{case.total_variation:.4f}"
    return [
        _name(case),
        method,
        low if low == high else f"{low} - {high}",
        "-" if case.record_utility is None else share(case.record_utility),
        "yes" if case.invertible else "no",
        distance if case.total_variation is None or case.total_variation < 1 else "above 1",
    ]
