"""The policy: what the publisher asks for, read from TOML and checked.

Every column has a stated role; nothing is guessed. `Policy.load` reads a file; `Policy.parse` a string; the sections
and their meaning are documented in docs/reference/policy.md.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny, ValidationError, model_validator

from sfumato.errors import PolicyError, UsageError
from sfumato.methods import METHODS, Method, options, read_method, several
from sfumato.publisher import toml
from sfumato.publisher.policy_mistakes import explained, not_toml, reason
from sfumato.publisher.policy_rules import (
    OWN_KEYS,
    AboutRule,
    BinRule,
    ColumnRule,
    GroupRule,
    OutputRule,
    PersonRule,
    RequirementRule,
    ValueRule,
)
from sfumato.show.reading import read_text
from sfumato.values.attributes import Schema
from sfumato.values.requirement import Requirement, Requirements, RiskLimit
from sfumato.values.section import InputRule, Section
from sfumato.values.text import did_you_mean, near_file

UNDECIDED = "DECIDE"  # how a text begins that `init` puts where it does not know what the publisher wants

_ONE_BEFOREHAND = 'keep one row of each person in the table, drawn at random, or say "per-row"'
_HASHED: dict[str, Any] = {
    "retention_floor": 0.0,
    "weights": "equal",
    "minimum_sub_table": 1000,
    "delta": 0.05,
    "scope": "both",
    "risk": None,
    "fixed": [],
    "objective": "l2",
    "variant": None,
    "always": False,
    "attribute_sets": [],
    "prior": "none",
}
"""What a method is hashed with that has no such options: so hashes of policies stay what they were."""


class Policy(Section):
    """What the publisher asks for. Build it with `Policy.load`, `Policy.parse` or directly."""

    model_config = ConfigDict(serialize_by_alias=True)

    version: Literal[1] = 1
    columns: dict[str, ColumnRule]
    stated_method: Annotated[SerializeAsAny[Method], BeforeValidator(read_method), Field(alias="method")]
    requirement_rule: Annotated[RequirementRule, Field(alias="requirement")]
    person: PersonRule | None = None
    record_key: str | None = None
    series: str | None = None
    input: InputRule = InputRule()
    output: OutputRule = OutputRule()
    about: Annotated[AboutRule | None, Field(exclude_if=lambda about: about is None)] = None  # then it is not hashed

    @model_validator(mode="before")
    @classmethod
    def _leaves_one_to_the_policy(cls, stated: Any) -> Any:
        """Raise if every sensitive column has a method of its own, whether the policy has one besides or not."""
        columns = stated.get("columns") if isinstance(stated, dict) else None
        rules = [rule for rule in columns.values() if isinstance(rule, dict)] if isinstance(columns, dict) else []
        own = ["method" in rule for rule in rules if rule.get("role") == "sensitive"]
        if own and all(own):
            raise ValueError(
                "every sensitive column has a method of its own: state one of them as [method] and [requirement] of "
                "the policy, and leave it out of the column's section"
            )
        return stated

    @model_validator(mode="after")
    def _names_fit(self) -> Policy:
        if not any(rule.role == "sensitive" for rule in self.columns.values()):
            raise ValueError('no column is sensitive: give at least one column role = "sensitive"')
        for what, name in self._told_apart_by():
            if name and name not in self.columns:
                raise ValueError(
                    f"{what} names {name!r}, which is not among the columns{did_you_mean(name, self.columns)}"
                )
            if name and self.columns[name].role == "sensitive":
                raise ValueError(f"{what} names {name!r}, which is sensitive; it must be another column")
        self._check_method()
        self._check_series()
        if self.output.order == "keep" and not self.method.keeps_order:
            raise ValueError(
                f'order = "keep" does not go with {self.method.name}: its rows are in random order; leave order out'
            )
        if self.output.order == "keep" and self.person and self.person.repeated == "keep-one":
            raise ValueError(
                'order = "keep" does not go with person.repeated = "keep-one": the rows whose order the plan tests are '
                "not those that publishing draws; leave order out"
            )
        for own, rule, place in self._asked:
            self._check_requirement(own, rule, place)
        # numbers are checked where the values are made: raise now, not when the table is read
        _ = self.requirement
        self.method.check_numbers()
        _ = self.attributes
        return self

    def _told_apart_by(self) -> tuple[tuple[str, str | None], ...]:
        return ("person.column", self.person.column if self.person else None), ("record_key", self.record_key)

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

    def _check_method(self) -> None:
        """What a method draws afresh no later release can repeat, and what it counts must be what is published."""
        method, name = self.method, self.method.name
        method.check(self.attributes)
        if self.record_key and method.drawn_anew:
            raise ValueError(f"a record_key does not go with {name}: {method.drawn_anew} is drawn anew")
        for what, column in self._told_apart_by():
            if column in method.randomized(self.attributes):
                raise ValueError(f"{what} names {column!r}, which may be randomized; it must be another column")
        if self.person and self.person.repeated == "keep-one" and method.why_not_one:
            raise ValueError(
                f'person.repeated = "keep-one" does not go with {name}: {method.why_not_one}; {_ONE_BEFOREHAND}'
            )
        if taken := set(method.added) & {column.lower() for column in self.columns}:
            raise ValueError(
                f"the column name {min(taken)!r} is taken: {name} adds a column of that name; rename it in the table "
                "and in the policy"
            )

    def _check_requirement(self, stated: Method, rule: RequirementRule, place: str) -> None:
        """Some methods take a requirement of their own kind, and no other."""
        method, keys = stated.name, _own_keys(stated.takes)
        own = next((key for key in ("l", "r", "risk_limit") if getattr(rule, key) is not None), None)
        if keys and own not in keys:
            raise ValueError(
                f"the method {method} takes {' or '.join(keys)}, and takes no other requirement: write for instance "
                f"{keys[0]} = 3 alone in [{place}]"
            )
        if own and not keys:
            takers = [other.name for other in METHODS if own in _own_keys(other.takes)]
            raise ValueError(
                f"{own} goes with the method {' or '.join(takers)}; the method is {method}, for which you state "
                "rho1 and rho2, values, a tolerance, gamma or epsilon"
            )
        if rule.groups and RiskLimit not in stated.takes:
            takers = [other.name for other in METHODS if RiskLimit in other.takes]
            raise ValueError(f"groups go with the method {' or '.join(takers)}; the method is {method}")
        linked = self.attributes.names("quasi_identifier", "sensitive")
        for group in rule.groups:
            if wrong := [name for name in group.where if name not in linked]:
                raise ValueError(
                    f"requirement.groups names {wrong[0]!r}, which is neither a quasi_identifier nor sensitive"
                    f"{did_you_mean(wrong[0], linked)}"
                )

    @property
    def _asked(self) -> list[tuple[Method, RequirementRule, str]]:
        """The policy's method and requirement, and those of columns with their own; where each requirement stands."""
        own = [
            (rule.method, rule.requirement, f"columns.{name}.requirement")
            for name, rule in self.columns.items()
            if rule.method is not None and rule.requirement is not None
        ]
        return [(self.stated_method, self.requirement_rule, "requirement"), *own]

    @property
    def own_requirements(self) -> tuple[tuple[str, RequirementRule], ...]:
        """What is required of the columns of each method, by their names."""
        shared = " / ".join(name for name in self.attributes.names("sensitive") if name not in self.apart)
        names = (shared, *self.apart)
        return tuple((name, rule) for name, (_, rule, _) in zip(names, self._asked, strict=True))

    @property
    def apart(self) -> tuple[str, ...]:
        """The sensitive columns with a method of their own: they are counted and drawn each by itself."""
        return tuple(name for name, rule in self.columns.items() if rule.method is not None)

    @property
    def method(self) -> Method:
        """The method: the policy's, or where columns have their own, all of them together."""
        own = {name: rule.method for name, rule in self.columns.items() if rule.method is not None}
        return several(self.stated_method, own) if own else self.stated_method

    @property
    def requirement(self) -> Requirement:
        """The requirement as a value of the model, as the method takes it."""
        first, *own = self._asked
        stated = first[1].requirement(first[0].takes)
        return Requirements((stated, *(_own_requirement(*asked) for asked in own))) if own else stated

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file."""
        if Path(path).suffix.lower() in (".csv", ".tsv", ".gz", ".parquet", ".pq"):
            raise PolicyError(
                f"{str(path)!r} is a table, not a policy.",
                "Give a policy, a file in TOML; the table comes first: sfumato plan TABLE POLICY",
            )
        try:
            text = read_text(path)
        except FileNotFoundError:
            raise PolicyError(
                f"There is no policy file {str(path)!r}.",
                near_file(path) or "Make one: sfumato init TABLE -o policy.toml.",
            ) from None
        except (OSError, ValueError) as problem:
            raise PolicyError(
                f"The policy file {str(path)!r} cannot be read: {problem}.",
                "A policy is a file of text, in TOML and UTF-8: sfumato init TABLE -o policy.toml makes one.",
            ) from None
        policy = cls.parse(text, str(path))
        policy.method.named_in(Path(path).parent)
        return policy

    @classmethod
    def parse(cls, text: str, source: str = "the policy") -> Policy:
        """Read a policy from TOML."""
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise PolicyError(*not_toml(text, source, str(problem))) from None
        if undecided := list(open_decisions(raw)):
            raise PolicyError(
                f"{source} leaves {len(undecided)} decision(s) to you:\n"
                + "\n".join(f"  {line}" for line in undecided),
                f"Write what you decide in the place of each text that begins with {UNDECIDED}.",
            )
        try:
            return cls.model_validate(raw)
        except ValidationError as problem:
            raise PolicyError(f"{source} is not a valid policy:\n" + explained(problem, sections())) from None
        except UsageError as problem:
            raise PolicyError(f"{source} is not a valid policy: {problem.message}", problem.hint) from None

    def unkeyed(self) -> Policy:
        """Return the policy without a record key, for a trial: no later release can follow on it."""
        return self.model_copy(update={"record_key": None, "series": None}) if self.record_key else self

    def changed(self, method: dict[str, Any], requirement: dict[str, Any]) -> Policy:
        """Return the policy with another method and requirement, for a trial: columns and persons stay as stated.

        Methods of columns are left out, and a record key: no later release can follow on a trial. Rows are shuffled, as
        all methods can.
        """
        kept: dict[str, Any] = {name: getattr(self, name) for name in ("person", "input")}
        kept["columns"] = {
            name: rule.model_copy(update={"method": None, "requirement": None}) for name, rule in self.columns.items()
        }
        kept["output"] = self.output.model_copy(update={"order": "shuffle"})
        try:
            policy = type(self).model_validate({**kept, "method": method, "requirement": requirement})
        except ValidationError as problem:
            reasons = dict.fromkeys(reason(error, sections()) for error in problem.errors())
            raise PolicyError(f"The policy does not fit: {'; '.join(reasons)}.") from None
        policy.method.named_in(self.method.folder)
        return policy

    @property
    def attributes(self) -> Schema:
        return Schema(tuple(rule.attribute(name) for name, rule in self.columns.items()))

    @property
    def linked(self) -> tuple[str, ...]:
        """The columns that are counted together with the sensitive ones, if the method needs that; else none."""
        return self.method.counted(self.attributes)

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
        return (*of_columns, *self.requirement_rule.facts_from_table())

    def to_toml(self) -> str:
        """Return the policy as TOML that reads as the same one: what it states, without comments."""
        return toml.document(_stated(self.model_dump(mode="json", exclude_unset=True)))

    def hash(self) -> str:
        """Return the sha256 of the policy's content (not of its layout or comments)."""
        stated = self.model_dump(mode="json")
        content = stated | {"method": _HASHED | stated["method"]}
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _stated(content: Any) -> Any:
    """Return what TOML can say: it has no word for what is not stated."""
    if isinstance(content, dict):
        return {key: _stated(value) for key, value in content.items() if value is not None}
    return [_stated(value) for value in content] if isinstance(content, list) else content


def _own_requirement(method: Method, rule: RequirementRule, place: str) -> Requirement:
    """Return the requirement of one column; what is wrong with it is told with its place."""
    try:
        return rule.requirement(method.takes)
    except PolicyError as problem:
        raise PolicyError(f"[{place}]: {problem.message}", problem.hint) from None


def _own_keys(taken: Collection[type[Requirement]]) -> tuple[str, ...]:
    """Return the keys that a method takes alone, if it takes a requirement of its own kind."""
    return tuple(key for kind, keys in OWN_KEYS.items() if kind in taken for key in keys)


def open_decisions(raw: Any, place: str = "") -> Iterator[str]:
    """Give the places that `init` left open, each with the choice."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            yield from open_decisions(value, f"{place}.{key}" if place else str(key))
    elif isinstance(raw, list):
        for number, value in enumerate(raw):
            yield from open_decisions(value, f"{place}.{number}")
    elif isinstance(raw, str) and raw.startswith(UNDECIDED):
        yield f"{place}: {raw.removeprefix(UNDECIDED).lstrip(': ')}"


def sections() -> dict[str, tuple[str, ...]]:
    """Return the keys of each section of a policy, by its heading."""

    def keys(section: type[Section]) -> tuple[str, ...]:
        return tuple(field.alias or name for name, field in section.model_fields.items())

    return {
        "": keys(Policy),
        "[about]": keys(AboutRule),
        "[columns.NAME]": keys(ColumnRule),
        "bins = { ... }": keys(BinRule),
        "[person]": keys(PersonRule),
        "[method]": ("name", *dict.fromkeys(option for option, _ in options())),
        "[requirement]": keys(RequirementRule),
        "[[requirement.values]]": keys(ValueRule),
        "[[requirement.groups]]": keys(GroupRule),
        "[output]": keys(OutputRule),
        "[input]": keys(InputRule),
    }
