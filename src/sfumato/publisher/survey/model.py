"""What a survey found, as values. The names of the fields are the keys of `sfumato profile --json`."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.values.attributes import Role


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
class Feasible:
    """What a method makes of a requirement on this table; `reason` says why it can't be met, "" if it can."""

    method: str
    assurance: str
    requirement: str
    from_policy: bool
    retention_low: float | None
    retention_high: float | None
    record_utility: float | None  # expected share of unchanged records
    invertible: bool | None  # whether unbiased estimates with error bars exist
    total_variation: float | None  # expected, of the estimated distribution
    published_share: float | None  # of the records, where they are published in groups, with true values
    reason: str
