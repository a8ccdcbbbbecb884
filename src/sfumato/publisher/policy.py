"""The policy: what the publisher asks for, read from TOML and checked.

Every column has a stated role; nothing is guessed. `Policy.load` reads a file; `Policy.parse` a string; the sections
and their meaning are documented in docs/policy.md.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import PrivateAttr, ValidationError, model_validator

from sfumato.errors import PolicyError, UsageError
from sfumato.publisher.policy_mistakes import explained, not_toml, reason
from sfumato.publisher.policy_rules import (
    GROUPING,
    RESPONSE,
    TAKEN,
    BinRule,
    ColumnRule,
    GroupRule,
    MethodRule,
    OutputRule,
    PersonRule,
    RequirementRule,
    ValueRule,
)
from sfumato.values.attributes import Schema
from sfumato.values.bucket_columns import COUNT, GROUP
from sfumato.values.input_rule import InputRule
from sfumato.values.mechanism import LABEL
from sfumato.values.nearest import near_file, nearest
from sfumato.values.requirement import Requirement, exact, probability_hint
from sfumato.values.section import Section

UNDECIDED = "DECIDE"
"""How a text begins that `init` puts where it does not know what the publisher wants."""

_ONE_BEFOREHAND = 'keep one row of each person in the table, drawn at random, or say "per-row"'


class Policy(Section):
    """What the publisher asks for. Build it with `Policy.load`, `Policy.parse` or directly."""

    version: Literal[1] = 1
    columns: dict[str, ColumnRule]
    method: MethodRule
    requirement: RequirementRule
    person: PersonRule | None = None
    record_key: str | None = None
    series: str | None = None
    input: InputRule = InputRule()
    output: OutputRule = OutputRule()
    _folder: Path = PrivateAttr(default=Path())  # of the policy file: files that it names are meant from there

    @model_validator(mode="after")
    def _names_fit(self) -> Policy:
        if not any(rule.role == "sensitive" for rule in self.columns.values()):
            raise ValueError('no column is sensitive: give at least one column role = "sensitive"')
        for what, name in (
            ("person.column", self.person and self.person.column),
            ("record_key", self.record_key),
        ):
            if name and name not in self.columns:
                raise ValueError(
                    f"{what} names {name!r}, which is not among the columns{_did_you_mean(name, self.columns)}"
                )
            if name and self.columns[name].role == "sensitive":
                raise ValueError(f"{what} names {name!r}, which is sensitive; it must be another column")
        if self.method.name == "small-domain":
            self._check_dealing()
        if self.method.name == RESPONSE:
            self._check_response()
        if self.method.name in GROUPING:
            self._check_grouping()
        self._check_series()
        if self.output.order == "keep" and self.method.name in (*GROUPING, RESPONSE):
            raise ValueError(
                f'order = "keep" does not go with {self.method.name}: its rows are in random order; leave order out'
            )
        if self.output.order == "keep" and self.person and self.person.repeated == "keep-one":
            raise ValueError(
                'order = "keep" does not go with person.repeated = "keep-one": the rows whose order the plan tests are '
                "not those that publishing draws; leave order out"
            )
        self._check_requirement()
        # numbers are checked where the values are made: raise now, not when the table is read
        self.plan_arguments()
        _ = self.attributes
        return self

    def _check_series(self) -> None:
        """Draws repeat within a series: tables that are no releases of one another must not share them."""
        if self.record_key and not (self.series and self.series.strip()):
            raise ValueError(
                "record_key needs a series, a name for the releases in which records keep their draws: say for "
                'instance series = "admissions", the same in every release of this table, and another one for every '
                "other table that uses the key file"
            )
        if self.series is not None and not self.record_key:
            raise ValueError("series goes with record_key: without one every release draws afresh; leave series out")

    def _check_dealing(self) -> None:
        """Sub-tables take exact numbers of records of each value, by secret draws that no later release can repeat."""
        if self.record_key:
            raise ValueError("a record_key does not go with small-domain: which sub-table a record is in is drawn anew")
        if self.person and self.person.repeated == "keep-one":
            raise ValueError(
                'person.repeated = "keep-one" does not go with small-domain: how many records of each value are kept '
                f"is known only when they are drawn; {_ONE_BEFOREHAND}"
            )
        if LABEL in {name.lower() for name in self.columns}:
            raise ValueError(
                f"the column name {LABEL!r} is taken: small-domain adds a column of that name; rename it in the table "
                "and in the policy"
            )

    def _check_response(self) -> None:
        """What is linked by, and what is limited, must be among the columns; and the table must be the one counted."""
        names = self.linked
        if not names:
            raise ValueError(
                "no column is a quasi_identifier: randomized-response limits what is learned by linking on these; give "
                'a column that others may know role = "quasi_identifier"'
            )
        if wrong := [name for name in self.method.fixed if name not in names]:
            raise ValueError(
                f"method.fixed names {wrong[0]!r}, which is not a quasi_identifier{_did_you_mean(wrong[0], names)}"
            )
        if set(names) <= set(self.method.fixed) and (
            self.method.scope == "quasi-identifiers" or self.method.limited_risk != "reconstruction"
        ):
            raise ValueError("all quasi-identifiers are fixed: nothing is left that could lower the risk")
        linked = self.attributes.names("quasi_identifier", "sensitive")
        for group in self.requirement.groups:
            if wrong := [name for name in group.where if name not in linked]:
                raise ValueError(
                    f"requirement.groups names {wrong[0]!r}, which is neither a quasi_identifier nor sensitive"
                    f"{_did_you_mean(wrong[0], linked)}"
                )
        for what, name in (("person.column", self.person and self.person.column), ("record_key", self.record_key)):
            if name in names:
                raise ValueError(f"{what} names {name!r}, which may be randomized; it must be another column")
        if self.person and self.person.repeated == "keep-one":
            raise ValueError(
                'person.repeated = "keep-one" does not go with randomized-response: the risk is that of the published '
                f"rows, and which ones these are is known only when they are drawn; {_ONE_BEFOREHAND}"
            )

    def _check_grouping(self) -> None:
        """Groups take exact numbers of records of each value, by secret draws that no later release can repeat."""
        name = self.method.name
        if len(hidden := self.attributes.names("sensitive")) > 1:
            raise ValueError(
                f"{name} takes one sensitive column, not {' and '.join(hidden)}: it bounds the belief in a combination "
                "of their values, and a group of different combinations may have one value of one column throughout; "
                "if combinations are what is to be hidden, join the columns to one, or choose another method"
            )
        if self.record_key:
            raise ValueError(f"a record_key does not go with {name}: which group a record is in is drawn anew")
        if self.person and self.person.repeated == "keep-one":
            raise ValueError(
                f'person.repeated = "keep-one" does not go with {name}: how many records of each value are kept is '
                f"known only when they are drawn; {_ONE_BEFOREHAND}"
            )
        if taken := {GROUP, COUNT} & {column.lower() for column in self.columns}:
            raise ValueError(
                f"the column name {min(taken)!r} is taken: {name} adds a column of that name; rename it in the table "
                "and in the policy"
            )
        if wrong := [c for c in self.known_columns if self.columns.get(c, None) is None]:
            raise ValueError(
                f"method.attribute_sets names {wrong[0]!r}, which is not among the columns"
                f"{_did_you_mean(wrong[0], self.columns)}"
            )
        if wrong := [c for c in self.known_columns if self.columns[c].role not in ("quasi_identifier", "other")]:
            raise ValueError(
                f"method.attribute_sets names {wrong[0]!r}, which is not published as it is: name columns with the "
                "role quasi_identifier or other"
            )

    def _check_requirement(self) -> None:
        """Some methods take a requirement of their own kind, and no other."""
        method, rule = self.method.name, self.requirement
        own = next((key for key in ("l", "r", "risk_limit") if getattr(rule, key) is not None), None)
        if method in TAKEN and own not in TAKEN[method]:
            keys = TAKEN[method]
            raise ValueError(
                f"the method {method} takes {' or '.join(keys)}, and takes no other requirement: write for instance "
                f"{keys[0]} = 3 alone in [requirement]"
            )
        if method not in TAKEN and own:
            takers = [name for name, keys in TAKEN.items() if own in keys]
            raise ValueError(
                f"{own} goes with the method {' or '.join(takers)}; the method is {method}, for which you state "
                "rho1 and rho2, values, a tolerance, gamma or epsilon"
            )
        if rule.groups and method != RESPONSE:
            raise ValueError(f"groups go with the method randomized-response; the method is {method}")

    @property
    def required(self) -> Requirement:
        """The requirement as a value of the model."""
        return self.requirement.requirement(self.method.name)

    @property
    def known_columns(self) -> tuple[str, ...]:
        """The columns of all attribute sets, each once."""
        return tuple(dict.fromkeys(name for names in self.method.attribute_sets for name in names))

    @property
    def prior(self) -> Literal["none", "table"] | tuple[Path, ...]:
        """Where the adversary's prior comes from: nowhere, the table, or a file for each attribute set."""
        prior = self.method.prior
        return prior if isinstance(prior, str) else tuple(self._folder / name for name in prior)

    @property
    def retention_floor(self) -> Fraction:
        """The floor on every retention probability, 0 for none."""
        floor = exact(self.method.retention_floor, "method.retention_floor")
        if not 0 <= floor <= 1:
            raise PolicyError(
                f"method.retention_floor must lie between 0 and 1, not {float(floor):g}.",
                probability_hint("retention_floor", floor),
            )
        return floor

    @property
    def delta(self) -> Fraction:
        """The error bounds of small domain randomization hold with confidence 1 - delta."""
        delta = exact(self.method.delta, "method.delta")
        if not 0 < delta < 1:
            raise PolicyError(
                f"method.delta must lie strictly between 0 and 1, not {float(delta):g}.",
                probability_hint("delta", delta),
            )
        return delta

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file."""
        if Path(path).suffix.lower() in (".csv", ".tsv", ".gz", ".parquet", ".pq"):
            raise PolicyError(
                f"{str(path)!r} is a table, not a policy.",
                "Give a policy, a file in TOML; the table comes first: sfumato plan TABLE POLICY",
            )
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise PolicyError(
                f"There is no policy file {str(path)!r}.",
                near_file(path) or "Make one: sfumato init TABLE -o policy.toml.",
            ) from None
        except (OSError, UnicodeDecodeError) as problem:
            raise PolicyError(
                f"The policy file {str(path)!r} cannot be read: {problem}.",
                "A policy is a file of text, in TOML and UTF-8: sfumato init TABLE -o policy.toml makes one.",
            ) from None
        policy = cls.parse(text, str(path))
        policy._folder = Path(path).parent
        return policy

    @classmethod
    def parse(cls, text: str, source: str = "the policy") -> Policy:
        """Read a policy from TOML."""
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise PolicyError(*not_toml(text, source, str(problem))) from None
        if undecided := list(_undecided(raw)):
            raise PolicyError(
                f"{source} leaves {len(undecided)} decision(s) to you:\n"
                + "\n".join(f"  {line}" for line in undecided),
                f"Write what you decide in the place of each text that begins with {UNDECIDED}.",
            )
        try:
            return cls.model_validate(raw)
        except ValidationError as problem:
            raise PolicyError(f"{source} is not a valid policy:\n" + explained(problem, _SECTIONS)) from None
        except UsageError as problem:
            raise PolicyError(f"{source} is not a valid policy: {problem.message}", problem.hint) from None

    def changed(self, method: dict[str, Any], requirement: dict[str, Any]) -> Policy:
        """Return the policy with another method and requirement, for a trial: columns and persons stay as stated.

        A record key is left out: no later release can follow on a trial. Rows are shuffled, as all methods can.
        """
        kept = {name: getattr(self, name) for name in ("columns", "person", "input")}
        kept["output"] = self.output.model_copy(update={"order": "shuffle"})
        try:
            policy = type(self).model_validate({**kept, "method": method, "requirement": requirement})
        except ValidationError as problem:
            reasons = dict.fromkeys(reason(error, _SECTIONS) for error in problem.errors())
            raise PolicyError(f"The policy does not fit: {'; '.join(reasons)}.") from None
        policy._folder = self._folder
        return policy

    @property
    def attributes(self) -> Schema:
        """The stated attributes."""
        return Schema(tuple(rule.attribute(name) for name, rule in self.columns.items()))

    @property
    def linked(self) -> tuple[str, ...]:
        """The columns that are counted together with the sensitive ones, if the method needs that; else none."""
        return tuple(self.attributes.names("quasi_identifier")) if self.method.name == RESPONSE else self.known_columns

    def plan_arguments(self) -> dict[str, Any]:
        """Return what the policy asks of a plan: `sf.plan(profile, **policy.plan_arguments())`."""
        return {
            "method": self.method.name,
            "requirement": self.required,
            "assurance": self.method.assurance,
            "retention_floor": self.retention_floor,
            "weights": self.method.weights,
            "minimum_sub_table": self.method.minimum_sub_table,
            "delta": self.delta,
            "scope": self.method.scope,
            "risk": self.method.limited_risk,
            "fixed": self.method.fixed,
            "objective": self.method.objective,
            "variant": self.method.suppression,
            "always": self.method.always,
            "attribute_sets": self.method.attribute_sets,
            "prior": self.prior,
            "keyed": self.record_key is not None,
            "shuffle": self.output.order == "shuffle",
        }

    @property
    def exemptions(self) -> tuple[str, ...]:
        """The columns that are published whatever they look like, each with the reason: who signs must see them."""
        return tuple(
            f"{name!r} is published as it is, whatever it tells of who people are. The policy says why: "
            f"{rule.publish_as_is}."
            for name, rule in self.columns.items()
            if rule.publish_as_is is not None
        )

    @property
    def facts_from_table(self) -> tuple[str, ...]:
        """What the policy says that was read off the table, and that nobody has confirmed yet: `from_table = true`."""
        of_columns = [fact for name, rule in self.columns.items() for fact in rule.facts_from_table(name)]
        return (*of_columns, *self.requirement.facts_from_table())

    def hash(self) -> str:
        """Return the sha256 of the policy's content (not of its layout or comments)."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def _undecided(raw: Any, place: str = "") -> Iterator[str]:
    """Give the places that `init` left open, each with the choice."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            yield from _undecided(value, f"{place}.{key}" if place else str(key))
    elif isinstance(raw, list):
        for number, value in enumerate(raw):
            yield from _undecided(value, f"{place}.{number}")
    elif isinstance(raw, str) and raw.startswith(UNDECIDED):
        yield f"{place}: {raw.removeprefix(UNDECIDED).lstrip(': ')}"


_SECTIONS: dict[str, type[Section]] = {
    "": Policy,
    "[columns.NAME]": ColumnRule,
    "bins = { ... }": BinRule,
    "[person]": PersonRule,
    "[method]": MethodRule,
    "[requirement]": RequirementRule,
    "[[requirement.values]]": ValueRule,
    "[[requirement.groups]]": GroupRule,
    "[output]": OutputRule,
    "[input]": InputRule,
}
