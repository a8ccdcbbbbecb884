"""The manifest: all that an analyst, and so an attacker, gets to know besides the data.

It holds domains, the integer matrices, the bounds and the guarantee; no draw or key, and no list of counts or quotas.
But two methods compute a matrix from the table's own frequencies, which it then tells, and say so
(`discloses_frequencies`): a tolerance with rho1 = "observed", and small domain randomization (the largest share in each
sub-table, which may fix all its numbers). Its JSON Schema is docs/reference/manifest.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sfumato.claims.buckets import BucketClaim
from sfumato.claims.claim import BOTH, UPWARD, Card, Claim, Guarantee, Scope, Shape, card_of, known_columns, why_of
from sfumato.claims.linking_risk import RiskClaim
from sfumato.claims.odds import OddsClaim
from sfumato.claims.several import SeveralClaim
from sfumato.claims.steps import StepsClaim
from sfumato.claims.sub_tables import SubTableClaim
from sfumato.claims.why import Why
from sfumato.errors import ReleaseError
from sfumato.release.formats import FORMATS, FormatName
from sfumato.release.parts import DATA_FOLDER, GROUPS_FOLDER, FilePart, Part, check_parts, schema_of
from sfumato.show.files import NUMBERS
from sfumato.show.formulas import is_formula
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Direction
from sfumato.values.mechanism import BETWEEN, Form, Mechanism, finite, read_domains, read_mechanism, sub_tables
from sfumato.values.number_texts import Holds
from sfumato.values.requirement import GroupLimit, RiskLimit

Rational = Annotated[str, Field(pattern=r"^[0-9]+(/[0-9]+)?$", max_length=4000)]
"""Python makes text of no integer with more than 4,300 digits."""
Weight = Annotated[str, Field(pattern="^[0-9]+$", max_length=20)]
"""2^64 has 20 digits."""
Number = Annotated[int, Field(ge=0)]
"""Of a value, a class or a place, from 0."""
MethodName = Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,63}$")]
"""A name and no more: titles and the README show it beside what is promised."""
MOST = 1 << 53
"""Of records, lines and groups: every program that reads JSON has integers up to it."""
Kind = Literal["perturbation", "small-domain", "randomized-response"]
ReleaseKind = Literal["randomized", "several", "response", "groups"]
"""How the sensitive values are hidden: randomized by one mechanism, by several of their own, by columns that are, or
apart in buckets."""
TOLD_BY_SHAPE = ("several", "small-domain", "randomized-response", "anatomy", "suppression", "robust-anatomy")
"""Methods whose manifests have a shape of their own; one matrix for all rows may go by any other name, and is held to
what is stated of it: the integers prove it or not."""
Treatment = Literal["randomized", "binned", "merged", "untouched", "sub-table", "group"]
KNOWN_TREATMENTS = ("binned", "merged", "untouched")
"""Of columns that show what was collected: others may know it."""


def _is_none(value: object) -> bool:
    return value is None


def _is_false(value: object) -> bool:
    return value is False


Parts = Annotated[
    Annotated[tuple[FilePart, ...], Field(min_length=1)] | None,
    Field(
        description="The files of the table in their order, Parquet all; left out or null where it is one file.",
        exclude_if=_is_none,  # the manifest of a table in one file is as before there were parts
    ),
]


HeldNumbers = Annotated[
    Holds | None,
    Field(
        description="What numbers its text holds, in all rows: they are compared, grouped and summed as these. Left "
        "out or null where it holds none, or is no text.",
        exclude_if=_is_none,
    ),
]


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Let numbers that fit no matrix and no claim be the manifest's mistake, wherever they are first looked at."""
    try:
        yield
    except (ArithmeticError, IndexError, ValueError) as problem:
        raise ReleaseError(
            f"The {what} cannot be read: {str(problem).rstrip('.')}.",
            "`sfumato verify` tells what else is wrong. Get the release anew from the publisher.",
        ) from None


class DataFile(Part):
    """The published rows."""

    file: str = Field(description=f"Name of the file in the release folder; with parts {DATA_FOLDER!r}, a folder.")
    format: FormatName
    rows: int = Field(ge=0, le=MOST, description="Number of published rows.")
    sha256: str = Field(description="Of the file; with parts, of the 32 bytes of each part's, one after another.")
    shuffled: bool = Field(description="Whether the rows were put in a random order.")
    escaped: bool = Field(
        default=False,
        description="Whether an apostrophe stands before text that a spreadsheet program would calculate, and before "
        "text that begins with one, in names and in values of columns of text, in all files of the release; who reads "
        "them takes the first apostrophe of a text away. Left out where none does.",
        exclude_if=_is_false,
    )
    parts: Parts = None

    @model_validator(mode="after")
    def _is_whole(self) -> DataFile:
        if self.escaped and not FORMATS[self.format].holds_formulas:
            raise ValueError(f"a file of the format {self.format} has no formulas to escape")
        if self.parts is not None:
            check_parts(self.parts, DATA_FOLDER, self.file, self.rows, self.sha256)
            if self.format != "parquet":
                raise ValueError(f"a table in parts is Parquet, not {self.format}")
        return self


class Column(Part):
    """A published column."""

    name: str
    type: str = Field(description="Arrow type of the values.")
    treatment: Treatment
    holds: HeldNumbers = None
    formulas: bool = Field(
        default=False,
        description="Whether some published text of it begins like a formula, which a spreadsheet program that opens "
        "the file would calculate. Left out where none does, and where they are escaped.",
        exclude_if=_is_false,
    )
    order: tuple[str | bool | int, ...] | None = Field(
        default=None,
        description="The values that the policy declares of a column that is not randomized, in their order; others "
        "come after them. Left out or null where it declares none. It does not tell which of them occur.",
        exclude_if=_is_none,
    )

    @field_validator("order")
    @classmethod
    def _names_each_once(cls, order: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if order is not None and len(set(order)) < len(order):
            raise ValueError("an order names each value once")
        return order


class DomainPart(Part):
    """A randomized column and its values, in the order of their codes; null is the missing value."""

    name: str
    values: tuple[str | bool | int | None, ...]
    holds: HeldNumbers = None
    ordered: bool = Field(
        default=False,
        description="Whether the policy says that the values are listed from the lowest to the highest; the missing "
        "value is in no order. Left out where it does not.",
        exclude_if=_is_false,  # the manifest of a column without an order is as before
    )

    @field_validator("values")
    @classmethod
    def _has_one_type(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len({type(value) for value in values} - {type(None)}) > 1:
            raise ValueError("values of a column have one type: all are texts, or whole numbers, or true and false")
        return values


class Noise(Part):
    """Integer weights over 2^64: a value i becomes each other value with probability weights[i] / 2^64.

    One weight stands for all values where they are equal. A compound of several columns numbers its combinations with
    the last column running fastest.
    """

    size: int = Field(ge=1)
    weights: tuple[Weight, ...]


Columns = Annotated[
    tuple[tuple[Weight, ...], ...] | None,
    Field(
        description="Its matrix where it has any columns: for each of its values the integer weights over 2^64 with "
        "which the values are published for it. Left out or null where `noise` tells the matrix.",
        exclude_if=_is_none,
    ),
]


Cards = Annotated[
    tuple[tuple[Number, ...], ...] | None,
    Field(
        description="The values of each card, by their numbers in the domain, where cards are published and `columns` "
        "has a weight for each of them. Left out or null where values are.",
        exclude_if=_is_none,
    ),
]


class Blocks(Part):
    """A matrix by classes of values: a value of class a becomes each value of class b with weights[b][a] / 2^64.

    Otherwise it stays.
    """

    classes: tuple[Number, ...] = Field(description="The class of each value, from 0.")
    weights: tuple[tuple[Weight, ...], ...]


class Deck(Part):
    """A deck of cards: card b * values + s + 1 holds the values (d + s) modulo `values`, for all d of block b.

    A card is drawn with inside / 2^64 if it holds the true value, and with outside / 2^64 if it does not; what is left
    of 2^64 goes to the first cards that do not, a unit each.
    """

    values: int = Field(ge=2)
    blocks: tuple[tuple[Number, ...], ...]
    inside: Weight
    outside: Weight


class Windows(Part):
    """Cards for values in order. Windows: the places f to f + width - 1, cut at both ends, for f from 1 - width on.

    Then a deck: the places (d + s) modulo the number of values, for all d of each block and all s. Outputs with the
    same places are one card; of two cards the one that alone holds the first place in which they differ comes first.
    A window is drawn with inside[0] / 2^64 if it holds the true value, and with outside[0] / 2^64 if it does not, and a
    set of the deck with inside[1] and outside[1]; what is left of 2^64 goes to the first windows, and then sets, that
    do not hold it, a unit each.
    """

    order: tuple[Number, ...] = Field(description="The value at each place, from the lowest.")
    width: int = Field(ge=1)
    blocks: tuple[tuple[Number, ...], ...]
    inside: tuple[Weight, Weight]
    outside: tuple[Weight, Weight]


class GradedOrbit(Part):
    """Cards with equally many values of each class, drawn with weights that depend on the class of the true value."""

    blocks: tuple[tuple[tuple[Number, ...], ...] | None, ...] = Field(
        description="For each class its blocks, by places of the ring; null: all values of the class are on every card."
    )
    inside: tuple[Weight, ...] = Field(description="For each class: the weight of a card that holds the true value.")
    outside: tuple[Weight, ...] = Field(description="For each class: the weight of a card that does not.")


class GradedPart(Part):
    """A deck by classes of values. The values of class l stand on a ring of rings[l] places, the last may be empty.

    The cards of an orbit are its blocks, one after the other, each turned by s = 0, 1, ... as often as the least common
    multiple of the rings of which blocks have some places: they hold the values on the places (d + s) modulo rings[l].
    What is left of 2^64 goes to the first cards that do not hold the true value, a unit each: by orbit, block, the
    place of the block on which the value would be, and s.
    """

    classes: tuple[Number, ...] = Field(description="The class of each value, from 0.")
    rings: tuple[Annotated[int, Field(ge=1)], ...]
    orbits: tuple[GradedOrbit, ...]


class BoundPart(Part):
    """What was required of a value; exact fractions as text. gamma null: nothing."""

    gamma: Rational | None
    rho1: Rational | None
    rho2: Rational | None
    given: str


class SetPart(Part):
    """A set of values with a bound of its own: on the belief that a record's value is one of them, not which."""

    values: tuple[Number, ...] = Field(
        min_length=2, description="Their numbers in the domain, from 0; some of all values."
    )
    prefix: Annotated[str | None, Field(exclude_if=_is_none)] = Field(
        None, description="That the set is of all values whose text starts so; left out or null where it is not."
    )
    between: Annotated[tuple[str, str] | tuple[int | float, int | float] | None, Field(exclude_if=_is_none)] = Field(
        None,
        description="That the set is of all values from the first to the last of two texts, with all that start like "
        "the last, or of two numbers; left out or null where it is not.",
    )
    column: Annotated[str | None, Field(exclude_if=_is_none)] = Field(
        None, description="The column that it is about, where there are several; left out or null where there is one."
    )
    bound: BoundPart


class SubTablePart(Part):
    """A part of the rows with values, a matrix and bounds of its own."""

    values: tuple[Number, ...] | None = Field(
        description="Numbers of its values in the domain, from 0; null for all of them. It can publish no other value."
    )
    noise: Noise | None = Field(
        None,
        description="Its matrix, for its values in their order; left out or null where `columns` tells it.",
        exclude_if=_is_none,
    )
    columns: Columns = None
    cards: Cards = None
    blocks: Annotated[Blocks | None, Field(exclude_if=_is_none)] = None
    deck: Annotated[Deck | None, Field(exclude_if=_is_none)] = None
    windows: Annotated[Windows | None, Field(exclude_if=_is_none)] = None
    graded: Annotated[GradedPart | None, Field(exclude_if=_is_none)] = None
    bounds: tuple[BoundPart, ...] = Field(description="One for each of its values, or one for all of them.")
    sets: Annotated[tuple[SetPart, ...] | None, Field(exclude_if=_is_none)] = Field(
        None,
        description="Sets of values with bounds of their own; left out or null where there are none, and where there "
        "are several sub-tables.",
    )

    @model_validator(mode="after")
    def _has_one_matrix(self) -> SubTablePart:
        kinds = (self.noise, self.columns, self.blocks, self.deck, self.windows, self.graded)
        if sum(matrix is not None for matrix in kinds) != 1:
            raise ValueError("a sub-table has one matrix, by noise, columns, blocks, deck, windows or graded")
        if self.cards is not None and self.columns is None:
            raise ValueError("cards go with a matrix by columns")
        return self


class NearPart(Part):
    """A bound for someone who already knows a record's value up to some steps of its order."""

    steps: int = Field(ge=1, description="From the lowest to the highest value that is possible to them.")
    bound: BoundPart


class ClaimedPart(Part):
    """What is promised of the columns of one mechanism by themselves, where columns have methods of their own."""

    method: MethodName
    assurance: Literal["proved", "as-published"]
    scope: Scope
    directions: tuple[Direction, ...] = Field(min_length=1)
    discloses_frequencies: bool = Field(description="As that of the manifest, for this matrix.")

    @property
    def is_misnamed(self) -> bool:
        """Whether the method goes by the name of another kind."""
        return _is_misnamed(self.method, self.assurance, self.scope, "downward" in self.directions)

    @property
    def value(self) -> OddsClaim:
        """The claim as a value of the model."""
        ways = BOTH if "downward" in self.directions else UPWARD
        return OddsClaim(self.scope, ways, self.discloses_frequencies, self.assurance == "as-published")


class MechanismPart(Part):
    """How the sensitive columns were randomized: each row by itself, with the matrix of its sub-table."""

    kind: Kind
    domain: tuple[DomainPart, ...] = Field(min_length=1)
    form: Annotated[Form, Field(exclude_if=lambda form: form == "value")] = Field(
        "value",
        description="What is published of a record: a value of the domain (left out then), the values of a card with "
        f"{BETWEEN!r} between them (in Parquet a list), or the number of the card as the text 'card 17', from 1.",
    )
    sub_table_column: str | None = Field(
        description="The column that tells a row's sub-table, numbered from 1; null where there is one for all rows."
    )
    minimum_sub_table: Annotated[int, Field(ge=1)] | None = Field(
        description="Rows of every sub-table, at least; null for no minimum, or where the table stayed one."
    )
    rho1: Rational | None = Field(
        None,
        description="The rho1 that sub-tables are made for: what at most this share of the table has is protected.",
    )
    near: Annotated[NearPart | None, Field(exclude_if=_is_none)] = Field(
        None, description="What is promised of values a few steps apart; left out or null where that is not less."
    )
    claimed: Annotated[ClaimedPart | None, Field(exclude_if=_is_none)] = Field(
        None, description="The method of these columns and its promise, where several have their own; else left out."
    )
    sub_tables: tuple[SubTablePart, ...]
    epsilon: float | None = Field(description="Local differential privacy of one row; null for none.")

    @property
    def value(self) -> Mechanism:
        """The mechanism as a value of the model: sub-tables with their matrices in integers."""
        raw = self.model_dump()
        with _readable("matrix"):
            return read_mechanism(raw["domain"], raw["sub_tables"], self.sub_table_column, self.form)


class GroupLimitPart(Part):
    """Records with a risk limit of their own."""

    where: dict[str, tuple[str | bool | int, ...]] = Field(description="Columns, and the values that count of each.")
    limit: Rational


class ResponsePart(Part):
    """What randomized response limits; exact fractions as text."""

    risk: Literal["posterior", "link", "reconstruction"]
    scope: Literal["sensitive", "quasi-identifiers", "both"] = Field(description="What could be randomized.")
    quasi_identifiers: tuple[str, ...] = Field(
        min_length=1, description="Columns that records are linked by; fixed ones too."
    )
    sensitive: tuple[str, ...] = Field(min_length=1, description="Columns whose values are at risk.")
    limit: Rational = Field(description="Of all records that no group names.")
    groups: tuple[GroupLimitPart, ...] = Field(description="A record of several groups has the strictest limit.")


class GroupsPart(Part):
    """The second table of a release by groups: which sensitive values each group has, and how often.

    The data hold who is in which group, and no sensitive column. Which record of a group has which value is hidden.
    """

    file: str = Field(
        description=f"Name of the file in the release folder, in the format of the data; with parts {GROUPS_FOLDER!r}, "
        "a folder."
    )
    lines: int = Field(ge=1, le=MOST)
    sha256: str = Field(description="As that of the data.")
    domain: tuple[DomainPart, ...] = Field(
        min_length=1,
        description="The sensitive columns; all of them are in this file only. Of a domain that was read off the table "
        "the values of published records.",
    )
    group_column: str = Field(description="In both files: the number of the group, from 1.")
    count_column: str = Field(description="How many records of the group have the values of the line.")
    number: int = Field(ge=1, le=MOST, description="Of groups.")
    at_most: Rational = Field(
        description="1/l: no value has a larger share of a group; 1/r: no belief in a value of a record is larger."
    )
    withheld: int = Field(ge=0, le=MOST, description="Records of the table that are not published.")
    variant: Literal["rotation", "spread", "safe-d", "r-suppression"] | None = Field(
        description="How it was chosen which records are suppressed; null for methods that do not suppress."
    )
    always: bool = Field(
        False,
        description="Whether suppression hides the most frequent value of every table, and not only where some value "
        "has more than 1/l.",
    )
    attribute_sets: tuple[tuple[str, ...], ...] = Field(description="What beliefs beforehand may depend on.")
    prior: Literal["none", "table", "file"] | None = Field(
        description="Where these beliefs come from: any, the table's shares, a file; null for other methods."
    )
    dealt_within: tuple[str, ...] = Field(
        description="Records were dealt to groups at random among those that agree in these columns; none: among all."
    )
    parts: Parts = None

    @model_validator(mode="after")
    def _is_whole(self) -> GroupsPart:
        if self.parts is not None:
            check_parts(self.parts, GROUPS_FOLDER, self.file, self.lines, self.sha256)
        return self


class Manifest(Part):
    """Describes a release."""

    manifest_version: Literal[1] = 1
    release_id: str = Field(pattern="^[0-9a-f]{1,64}$")
    created: str = Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="Date, ISO 8601.")
    software: str = Field(pattern=r"^sfumato [0-9A-Za-z.+!-]{1,64}$")
    status: Literal["release", "not for release"] = Field(
        description='"not for release" if a test seed, which anyone can repeat, took the place of a secret key.'
    )
    method: MethodName
    assurance: Literal["proved", "as-published"]
    guarantee: Guarantee
    data: DataFile
    columns: tuple[Column, ...]
    merged: Annotated[
        dict[str, dict[str, tuple[str, ...]]] | None,
        Field(
            description="Columns whose values were merged, as the policy states it: each published name with the "
            "values that it stands for, also those that never occur. Null or left out for none.",
            exclude_if=_is_none,  # the manifest of a table without them is as before
        ),
    ] = None
    mechanisms: tuple[MechanismPart, ...] = Field(
        description="Each randomized columns of its own, independently of the others; none for releases by groups."
    )
    groups: GroupsPart | None = Field(None, description="The second table of a release by groups; null for others.")
    response: ResponsePart | None = Field(None, description="What randomized response limits; null for other methods.")
    discloses_frequencies: bool = Field(
        description="Whether the matrix was computed from the table's own frequencies, which it then tells."
    )
    computed_from_table: tuple[str, ...] = Field(
        description="Every published fact that was computed from the table, besides the columns that are published as "
        "they are. All else is public beforehand or drawn by the mechanism."
    )
    from_table: bool = Field(
        description="Whether that list holds anything; then the promise is to someone who knows less."
    )
    observed_domains: tuple[str, ...] = Field(description="Columns whose domain was read off the table.")
    second_release: str = Field(description="What another release of the same people would add up to.")
    policy_sha256: str
    readme_sha256: str

    @model_validator(mode="after")
    def _has_one_way(self) -> Manifest:
        if bool(self.mechanisms) == (self.groups is not None):
            raise ValueError("a release has mechanisms or groups, not both")
        if self.groups and self.groups.parts and self.data.format != "parquet":
            raise ValueError(f"a table in parts is Parquet, not {self.data.format}")
        if self.groups and not self.groups.number <= self.groups.lines <= self.data.rows:
            raise ValueError("each group has a line, and each line a record: there are more of the former")
        columns = [part.name for mechanism in self.mechanisms for part in mechanism.domain]
        if len(columns) != len(set(columns)):
            raise ValueError("a column is randomized by one mechanism only")
        _check_names([*(column.name for column in self.columns), *(part.name for part in self.only_in_buckets)])
        if len({mechanism.claimed is None for mechanism in self.mechanisms}) > 1:
            raise ValueError("a promise of its own is stated of all mechanisms, or of none")
        return self

    @property
    def domain(self) -> SensitiveDomain:
        """The domain of the randomized columns, or of those that only groups have."""
        parts = [*self.only_in_buckets, *(part for mechanism in self.mechanisms for part in mechanism.domain)]
        with _readable("domain"):
            return read_domains([part.model_dump() for part in parts])

    @property
    def claim(self) -> Claim:
        """What is promised, as a value of the model: the one place where it is read off the shape of a manifest."""
        with _readable("limit"):
            return self._claim()

    def _claim(self) -> Claim:
        if self.kind == "groups":
            return self.bucket_claim
        if self.kind == "response":
            return self.risk_claim
        if self.kind == "several":
            return self.several_claim
        if "small-domain" in (self.method, self.mechanisms[0].kind):
            stated, rho1 = self.mechanisms[0], Fraction(self.mechanisms[0].rho1 or 0)
            return SubTableClaim(self.assurance, rho1, stated.minimum_sub_table, stated.sub_table_column)
        ways = BOTH if "downward" in self.guarantee.directions else UPWARD
        published = self.assurance == "as-published"
        odds = OddsClaim(self.guarantee.scope, ways, self.discloses_frequencies, published)
        near = self.mechanisms[0].near
        return odds if near is None else StepsClaim.read(odds, near.model_dump())

    @property
    def card(self) -> Card:
        """What is promised, in the five lines that people read."""
        with _readable("promise"):
            return card_of(self.claim, self._shape, self.guarantee, rows=self.data.rows, known=self._known)

    @property
    def why(self) -> Why:
        """Why the promise gives these matrices or groups, as its plan told it."""
        with _readable("promise"):
            return why_of(self.claim, self._shape, self.method)

    @property
    def _shape(self) -> Shape:
        return Shape(self.mechanism_values, self.withheld, self.computed_from_table)

    @property
    def _known(self) -> str:
        """The columns published as they are, which others are taken to know, whether they lead to people or not."""
        names = [column.name for column in self.columns if column.treatment in KNOWN_TREATMENTS]
        return known_columns(names)

    @property
    def is_misnamed(self) -> bool:
        """Whether the method goes by the name of another way to hide values than the manifest tells of."""
        kinds = {part.kind for part in self.mechanisms}
        if self.kind == "several":
            misnamed = any(part.claimed.is_misnamed for part in self.mechanisms if part.claimed)
            return self.method != "several" or kinds != {"perturbation"} or misnamed
        if kinds == {"perturbation"} and not self.response:
            stated = self.guarantee.scope, "downward" in self.guarantee.directions
            return _is_misnamed(self.method, self.assurance, *stated)
        if self.groups:
            due = "suppression" if self.groups.variant else "robust-anatomy" if self.groups.prior else "anatomy"
        else:
            due = "randomized-response" if self.response else "small-domain"
        return self.method != due or bool(kinds - {due})

    @property
    def bucket_claim(self) -> BucketClaim:
        """The claim of a release in buckets."""
        return BucketClaim(
            method=self.method,
            assurance=self.assurance,
            sensitive=self.domain.names,
            at_most=Fraction(self.buckets.at_most),
            variant=self.buckets.variant,
            attribute_sets=self.buckets.attribute_sets,
            prior=self.buckets.prior,
            always=self.buckets.always,
        )

    @property
    def several_claim(self) -> SeveralClaim:
        """The claim of several columns with methods of their own."""
        stated = [(part, part.claimed) for part in self.mechanisms if part.claimed is not None]
        names = tuple(" / ".join(own.name for own in part.domain) for part, _ in stated)
        claims = (
            claimed.value if part.near is None else StepsClaim.read(claimed.value, part.near.model_dump())
            for part, claimed in stated
        )
        return SeveralClaim(names, tuple(claimed.method for _, claimed in stated), tuple(claims))

    @property
    def by_mechanism(self) -> tuple[Manifest, ...]:
        """What is stated of each mechanism, as if its columns alone were sensitive; of one for all columns, itself."""
        if self.kind != "several":
            return (self,)
        shape = Shape(self.mechanism_values, computed=self.computed_from_table)
        each = zip(self.mechanisms, shape.mechanisms, self.several_claim.parts, strict=True)
        return tuple(
            self.model_copy(
                update={
                    "method": part.claimed.method,
                    "assurance": part.claimed.assurance,
                    "mechanisms": (part.model_copy(update={"claimed": None}),),
                    "guarantee": claim.guarantee(replace(shape, mechanisms=(mechanism,))),
                    "discloses_frequencies": part.claimed.discloses_frequencies,
                }
            )
            for part, mechanism, claim in each
            if part.claimed is not None
        )

    @property
    def risk_claim(self) -> RiskClaim:
        """The claim of randomized response."""
        assert self.response is not None
        groups = tuple(GroupLimit(tuple(group.where.items()), group.limit) for group in self.response.groups)
        stated, limit = self.response, RiskLimit(self.response.limit, groups)
        return RiskClaim(stated.risk, stated.quasi_identifiers, stated.sensitive, limit, stated.scope)

    @property
    def kind(self) -> ReleaseKind:
        """How the sensitive values are hidden."""
        if self.groups or self.response:
            return "groups" if self.groups else "response"
        return "several" if any(part.claimed for part in self.mechanisms) else "randomized"

    @property
    def in_buckets(self) -> bool:
        """Whether the sensitive values are apart, in the table of the groups."""
        return self.groups is not None

    @property
    def buckets(self) -> GroupsPart:
        """The table of the groups, where there is one."""
        assert self.groups is not None
        return self.groups

    @property
    def only_in_buckets(self) -> tuple[DomainPart, ...]:
        """The columns that only the table of the groups has."""
        return self.groups.domain if self.groups else ()

    @property
    def with_formulas(self) -> tuple[str, ...]:
        """The columns whose names or published text a spreadsheet program would calculate."""
        if self.data.escaped or not FORMATS[self.data.format].holds_formulas:
            return ()
        told = {column.name: column.formulas for column in self.columns}
        for part in self.only_in_buckets:
            told[part.name] = any(isinstance(value, str) and is_formula(value) for value in part.values)
        return tuple(name for name, has_formulas in told.items() if has_formulas or is_formula(name))

    @property
    def tables(self) -> tuple[DataFile | GroupsPart, ...]:
        """The published rows, and the table of the groups where there is one."""
        return (self.data,) if self.groups is None else (self.data, self.groups)

    @property
    def withheld(self) -> int:
        """How many records of the table are not published, though they have all values."""
        return self.groups.withheld if self.groups else 0

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns whose values are hidden; randomized response may hide them by other columns."""
        return self.response.sensitive if self.response else self.domain.names

    @property
    def mechanism_values(self) -> tuple[Mechanism, ...]:
        """The mechanisms as values of the model: sub-tables with their matrices in integers."""
        return tuple(mechanism.value for mechanism in self.mechanisms)

    def to_json(self) -> str:
        """Return the manifest as JSON."""
        return self.model_dump_json(indent=2) + "\n"


def json_schema() -> str:
    """Return the manifest's JSON Schema."""
    return schema_of(Manifest, "sfumato release manifest, version 1")


def _check_names(names: Sequence[str]) -> None:
    """Raise if a question could not tell a column from another one, or from a figure of its answer."""
    known: dict[str, str] = {}
    for name in names:
        if name.lower() in NUMBERS:
            raise ValueError(f"a column is called {name!r}, as a figure of every answer is")
        if (twin := known.setdefault(name.lower(), name)) != name:
            raise ValueError(f"the columns {twin!r} and {name!r} are one name to SQL")


# --- a claim as it is written; `Manifest.claim` reads it --------------------------------------------------------------


def mechanism_parts(claim: Claim, mechanisms: Sequence[Mechanism]) -> tuple[MechanismPart, ...]:
    """Return the mechanisms, with what is claimed of them."""
    kind: Kind = "randomized-response" if isinstance(claim, RiskClaim) else "perturbation"
    told: dict[str, Any] = {"kind": kind, "minimum_sub_table": None}
    if isinstance(claim, SubTableClaim):
        told = {"kind": "small-domain", "minimum_sub_table": claim.minimum_sub_table, "rho1": str(claim.rho1)}
    each: Sequence[dict[str, Any]] = [_told_of(claim)] * len(mechanisms)
    if isinstance(claim, SeveralClaim):
        each = [
            {"claimed": _claimed(part, method), **_told_of(part)}
            for part, method in zip(claim.parts, claim.methods, strict=True)
        ]
    return tuple(
        MechanismPart(
            **told,
            **own,
            domain=tuple(
                DomainPart(name=part.name, values=part.values, ordered=part.ordered) for part in mechanism.domain.parts
            ),
            form=mechanism.form,
            sub_table_column=mechanism.label,
            sub_tables=tuple(SubTablePart.model_validate(table) for table in sub_tables(mechanism)),
            epsilon=finite(mechanism.epsilon),
        )
        for mechanism, own in zip(mechanisms, each, strict=True)
    )


def _told_of(claim: Claim) -> dict[str, Any]:
    """Return what is claimed of values a few steps apart, if that is."""
    return {"near": claim.written()} if isinstance(claim, StepsClaim) else {}


def _claimed(claim: OddsClaim, method: str) -> ClaimedPart:
    return ClaimedPart(
        method=method,
        assurance="as-published" if claim.as_published else "proved",
        scope=claim.scope,
        directions=claim.directions,
        discloses_frequencies=claim.discloses_frequencies,
    )


def _is_misnamed(method: str, assurance: str, scope: Scope, both: bool) -> bool:
    """Whether one matrix for all rows, with such a promise, goes by the name of another method."""
    stated = scope, both
    due = {"uniform": ("any predicate", True), "fine-grain": ("single values", assurance == "proved" and both)}
    return method in TOLD_BY_SHAPE or due.get(method, stated) != stated


def response_part(claim: Claim) -> ResponsePart | None:
    """Return the limit on a risk, if that is what is claimed."""
    if not isinstance(claim, RiskClaim):
        return None
    groups = tuple(GroupLimitPart(where=dict(g.where), limit=str(g.limit)) for g in claim.limit.groups)  # type: ignore[arg-type]
    names = ("risk", "scope", "quasi_identifiers", "sensitive")
    told = {name: getattr(claim, name) for name in names}
    return ResponsePart(**told, limit=str(claim.limit.limit), groups=groups)


def bucket_keys(claim: Claim) -> dict[str, Any]:
    """Return what is claimed of buckets, by the keys of the manifest's groups."""
    assert isinstance(claim, BucketClaim)
    names = ("variant", "always", "attribute_sets", "prior", "dealt_within")
    return {"at_most": str(claim.at_most), **{name: getattr(claim, name) for name in names}}
