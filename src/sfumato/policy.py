"""The policy: what the publisher asks for, read from TOML and checked.

Every column has a stated role; nothing is guessed. `Policy.load` reads a file; `Policy.parse` a string; the sections
and their meaning are documented in docs/policy.md.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sfumato.attributes import Attribute, Bins, Missing, Role, Schema, Value
from sfumato.errors import PolicyError, UsageError
from sfumato.mechanism import LABEL
from sfumato.requirement import (
    Amplification,
    FineGrainPrivacy,
    GroupLimit,
    LocalPrivacy,
    Number,
    Requirement,
    RhoPrivacy,
    RiskLimit,
    Tolerance,
    ValueRequirement,
    exact,
)

MethodName = Literal["uniform", "fine-grain", "small-domain", "randomized-response"]
RESPONSE: MethodName = "randomized-response"
Risk = Literal["posterior", "link", "reconstruction"]
Assurance = Literal["proved", "as-published"]
Probability = float | str
Repeated = Literal["error", "keep-one", "per-row"]


class Section(BaseModel):
    """A part of the policy; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BinRule(Section):
    """Bins of a numeric column: `width` (and `origin`), or `breaks`."""

    width: float | None = None
    origin: float = 0
    breaks: Annotated[tuple[float, ...], Field(strict=False)] = ()


class ColumnRule(Section):
    """What a column is."""

    role: Role
    domain: Literal["observed"] | Annotated[tuple[str | bool | int, ...], Field(strict=False)] = "observed"
    bins: BinRule | None = None
    missing: Missing = "error"

    @model_validator(mode="after")
    def _identifiers_are_dropped(self) -> ColumnRule:
        if self.role == "identifier" and (self.bins or self.domain != "observed"):
            raise ValueError("an identifier is dropped: it takes no domain and no bins")
        return self

    def attribute(self, name: str) -> Attribute:
        """Return the rule as a value of the model."""
        bins = Bins(self.bins.width, self.bins.origin, self.bins.breaks) if self.bins else None
        declared: tuple[Value, ...] | None = None if self.domain == "observed" else tuple(self.domain)
        if bins and declared is None:
            declared = bins.all_labels()
        if declared is not None and self.missing == "category":
            declared = (*declared, None)
        return Attribute(name, self.role, self.missing, declared, bins)


class PersonRule(Section):
    """Which column tells persons apart, and what to do about several rows of one person."""

    column: str
    repeated: Repeated = "error"


class MethodRule(Section):
    """The method, its assurance, and what some methods take besides."""

    name: MethodName
    assurance: Assurance = "proved"
    retention_floor: Probability = 0.0
    weights: Literal["observed", "equal"] | dict[str, Probability] = "observed"
    minimum_sub_table: Annotated[int, Field(ge=1)] = 1000
    delta: Probability = 0.05
    scope: Literal["sensitive", "quasi-identifiers", "both"] = "both"
    risk: Risk | None = None
    fixed: Annotated[tuple[str, ...], Field(strict=False)] = ()
    objective: Literal["l2", "chi-square"] = "l2"

    @model_validator(mode="after")
    def _keys_fit(self) -> MethodRule:
        only_for: dict[str, tuple[MethodName, ...]] = {
            "retention_floor": ("uniform", "fine-grain"),
            "weights": ("fine-grain",),
            "minimum_sub_table": ("small-domain",),
            "delta": ("small-domain",),
            **dict.fromkeys(("scope", "risk", "fixed", "objective"), (RESPONSE,)),
        }
        for key, methods in only_for.items():
            if key in self.model_fields_set and self.name not in methods:
                raise ValueError(f"{key} does not go with {self.name}, only with {' and '.join(methods)}")
        if (self.limited_risk == "reconstruction") != (self.assurance == "as-published"):
            raise ValueError(
                f'the risk {self.limited_risk} does not go with assurance = "{self.assurance}": reconstruction (AD as '
                "published) bounds no inference; posterior and link are the ones that are proved"
            )
        if self.name == RESPONSE and self.scope == "sensitive" and self.limited_risk != "reconstruction":
            raise ValueError(
                f'scope = "sensitive" randomizes nothing that the risk {self.limited_risk} depends on: noise in the '
                "sensitive columns does not lower it"
            )
        return self

    @property
    def limited_risk(self) -> Risk:
        """The risk that randomized response limits: by default the one of the assurance."""
        return self.risk or ("posterior" if self.assurance == "proved" else "reconstruction")


class ValueRule(Section):
    """(rho1, rho2) of one value; `given` names the background knowledge that it is for."""

    value: str | int | bool | Annotated[tuple[str | int | bool, ...], Field(strict=False)]
    rho1: Probability
    rho2: Probability
    given: str = ""


class GroupRule(Section):
    """A risk limit of its own for the records with these values: `l` or `risk_limit`."""

    where: dict[str, str | int | bool | Annotated[tuple[str | int | bool, ...], Field(strict=False)]]
    l: Annotated[int, Field(ge=2)] | None = None  # noqa: E741
    risk_limit: Probability | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> GroupRule:
        if (self.l is None) == (self.risk_limit is None):
            raise ValueError("give either l or risk_limit")
        return self

    def limit(self) -> GroupLimit:
        """Return the rule as a value of the model."""
        where = tuple((name, v if isinstance(v, tuple) else (v,)) for name, v in self.where.items())
        return GroupLimit(where, _limit(self.l, self.risk_limit))


class RequirementRule(Section):
    """One of: rho1 and rho2 (with `values` for exceptions); values alone; tolerance and rho1; gamma; epsilon.

    Randomized response takes another one: l or risk_limit, with `groups` for exceptions.
    """

    rho1: Literal["observed"] | Probability | dict[str, Probability] | None = None
    rho2: Probability | None = None
    values: Annotated[tuple[ValueRule, ...], Field(strict=False)] = ()
    others: Literal["unprotected"] | None = None
    tolerance: Probability | None = None
    gamma: Probability | None = None
    epsilon: Probability | None = None
    l: Annotated[int, Field(ge=2)] | None = None  # noqa: E741
    risk_limit: Probability | None = None
    groups: Annotated[tuple[GroupRule, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> RequirementRule:
        kinds = {
            "tolerance": self.tolerance is not None,
            "gamma": self.gamma is not None,
            "epsilon": self.epsilon is not None,
            "l": self.l is not None,
            "risk_limit": self.risk_limit is not None,
            "rho2 or values": self.rho2 is not None or bool(self.values),
        }
        stated = [kind for kind, given in kinds.items() if given]
        if len(stated) != 1:
            raise ValueError(
                f"state one requirement; this states {' and '.join(stated) if stated else 'none'} "
                "(choose rho1 and rho2, values, tolerance with rho1, gamma, epsilon, l, or risk_limit)"
            )
        if self.tolerance is not None and not (self.rho1 == "observed" or isinstance(self.rho1, dict)):
            raise ValueError(
                'a tolerance needs rho1: a table of public probabilities, or rho1 = "observed" in words, '
                "because publishing the matrix then discloses the table's own frequencies"
            )
        if self.tolerance is None and (isinstance(self.rho1, dict) or self.rho1 == "observed"):
            raise ValueError('rho1 = "observed" or a table of rho1 goes with a tolerance')
        if stated[0] in ("gamma", "epsilon", "l", "risk_limit") and self.rho1 is not None:
            raise ValueError("gamma or epsilon stand alone, without rho1; so do l and risk_limit")
        if self.groups and stated[0] not in ("l", "risk_limit"):
            raise ValueError("groups go with an l or a risk_limit for all other records")
        if self.tolerance is None and (self.rho1 is None) != (self.rho2 is None):
            raise ValueError("rho1 and rho2 go together")
        if self.others and (self.rho2 is not None or not self.values):
            raise ValueError('others = "unprotected" goes with values, without a rho1 and rho2 for all')
        return self

    def requirement(self) -> Requirement:
        """Return the rule as a value of the model."""
        if self.gamma is not None:
            return Amplification(self.gamma)
        if self.epsilon is not None:
            return LocalPrivacy(self.epsilon)
        if self.l is not None or self.risk_limit is not None:
            return RiskLimit(_limit(self.l, self.risk_limit), tuple(group.limit() for group in self.groups))
        if self.tolerance is not None:
            return Tolerance(self.tolerance, self.rho1)  # type: ignore[arg-type]
        overall = None if self.rho2 is None else RhoPrivacy(self.rho1, self.rho2)  # type: ignore[arg-type]
        if overall and not self.values:
            return overall
        entries = tuple(ValueRequirement(v.value, v.rho1, v.rho2, v.given) for v in self.values)
        return FineGrainPrivacy(entries, overall, self.others == "unprotected")


def _limit(l: int | None, risk_limit: Probability | None) -> Number:  # noqa: E741
    """Return the limit that is stated by one of the two."""
    return Fraction(1, l) if l is not None else risk_limit or 0


class OutputRule(Section):
    """How the release is written. `order`: shuffle always, or (auto) when position tells of the sensitive value."""

    format: Literal["parquet", "csv"] = "parquet"
    order: Literal["auto", "shuffle"] = "auto"


class InputRule(Section):
    """How text files are read: the delimiter, and which texts mean "missing"."""

    delimiter: str = ","
    missing_values: Annotated[tuple[str, ...], Field(strict=False)] = ("",)

    @model_validator(mode="after")
    def _one_character(self) -> InputRule:
        if len(self.delimiter.encode()) != 1 or self.delimiter in '"\n\r\0':
            raise ValueError("the delimiter is one character, and no quote or line break")
        return self


class Policy(Section):
    """What the publisher asks for. Build it with `Policy.load`, `Policy.parse` or directly."""

    version: Literal[1] = 1
    columns: dict[str, ColumnRule]
    method: MethodRule
    requirement: RequirementRule
    person: PersonRule | None = None
    record_key: str | None = None
    input: InputRule = InputRule()
    output: OutputRule = OutputRule()

    @model_validator(mode="after")
    def _names_fit(self) -> Policy:
        if not any(rule.role == "sensitive" for rule in self.columns.values()):
            raise ValueError("no column is sensitive: give at least one column the role sensitive")
        for what, name in (
            ("person.column", self.person and self.person.column),
            ("record_key", self.record_key),
        ):
            if name and name not in self.columns:
                raise ValueError(f"{what} names {name!r}, which is not among the columns")
            if name and self.columns[name].role == "sensitive":
                raise ValueError(f"{what} names {name!r}, which is sensitive; it must be another column")
        if self.method.name == "small-domain":
            self._check_dealing()
        if self.method.name == RESPONSE:
            self._check_response()
        limits_risk = self.requirement.l is not None or self.requirement.risk_limit is not None
        if limits_risk != (self.method.name == RESPONSE):
            raise ValueError(
                "l and risk_limit limit a risk under linking: they go with the method randomized-response, which takes "
                f"no other requirement; the method is {self.method.name}"
            )
        # numbers are checked where the values are made: raise now, not when the table is read
        self.plan_arguments()
        _ = self.attributes
        return self

    def _check_dealing(self) -> None:
        """Sub-tables take exact numbers of records of each value, by secret draws that no later release can repeat."""
        if self.record_key:
            raise ValueError("a record_key does not go with small-domain: which sub-table a record is in is drawn anew")
        if self.person and self.person.repeated == "keep-one":
            raise ValueError(
                'person.repeated = "keep-one" does not go with small-domain: how many records of each value are kept '
                "is known only when they are drawn"
            )
        if LABEL in {name.lower() for name in self.columns}:
            raise ValueError(f"the column name {LABEL!r} is taken: small-domain adds a column of that name")

    def _check_response(self) -> None:
        """What is linked by, and what is limited, must be among the columns; and the table must be the one counted."""
        names = self.linked
        if not names:
            raise ValueError(
                "no column is a quasi_identifier: randomized-response limits what is learned by linking on these"
            )
        if wrong := [name for name in self.method.fixed if name not in names]:
            raise ValueError(f"method.fixed names {wrong[0]!r}, which is not a quasi_identifier")
        if set(names) <= set(self.method.fixed) and (
            self.method.scope == "quasi-identifiers" or self.method.limited_risk != "reconstruction"
        ):
            raise ValueError("all quasi-identifiers are fixed: nothing is left that could lower the risk")
        linked = self.attributes.names("quasi_identifier", "sensitive")
        for group in self.requirement.groups:
            if wrong := [name for name in group.where if name not in linked]:
                raise ValueError(
                    f"requirement.groups names {wrong[0]!r}, which is neither a quasi_identifier nor sensitive"
                )
        for what, name in (("person.column", self.person and self.person.column), ("record_key", self.record_key)):
            if name in names:
                raise ValueError(f"{what} names {name!r}, which may be randomized; it must be another column")
        if self.person and self.person.repeated == "keep-one":
            raise ValueError(
                'person.repeated = "keep-one" does not go with randomized-response: the risk is that of the published '
                "rows, and which ones these are is known only when they are drawn"
            )

    @property
    def retention_floor(self) -> Fraction:
        """The floor on every retention probability, 0 for none."""
        floor = exact(self.method.retention_floor, "method.retention_floor")
        if not 0 <= floor <= 1:
            raise PolicyError(f"method.retention_floor must lie between 0 and 1, not {float(floor):g}.")
        return floor

    @property
    def delta(self) -> Fraction:
        """The error bounds of small domain randomization hold with confidence 1 - delta."""
        delta = exact(self.method.delta, "method.delta")
        if not 0 < delta < 1:
            raise PolicyError(f"method.delta must lie strictly between 0 and 1, not {float(delta):g}.")
        return delta

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise PolicyError(f"There is no policy file {str(path)!r}.", "Make one: sfumato init TABLE.") from None
        except (OSError, UnicodeDecodeError) as problem:
            raise PolicyError(f"The policy file {str(path)!r} cannot be read: {problem}.") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str = "the policy") -> Policy:
        """Read a policy from TOML."""
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise PolicyError(f"{source} is not valid TOML: {problem}.") from None
        try:
            return cls.model_validate(raw)
        except ValidationError as problem:
            raise PolicyError(f"{source} is not a valid policy:\n" + _explained(problem)) from None
        except UsageError as problem:
            raise PolicyError(f"{source} is not a valid policy: {problem.message}", problem.hint) from None

    @property
    def attributes(self) -> Schema:
        """The stated attributes."""
        return Schema(tuple(rule.attribute(name) for name, rule in self.columns.items()))

    @property
    def linked(self) -> tuple[str, ...]:
        """The quasi-identifiers, if the method counts and may randomize them; else none."""
        return tuple(self.attributes.names("quasi_identifier")) if self.method.name == RESPONSE else ()

    def plan_arguments(self) -> dict[str, Any]:
        """Return what the policy asks of a plan: `sf.plan(profile, **policy.plan_arguments())`."""
        return {
            "method": self.method.name,
            "requirement": self.requirement.requirement(),
            "assurance": self.method.assurance,
            "retention_floor": self.retention_floor,
            "weights": self.method.weights,
            "minimum_sub_table": self.method.minimum_sub_table,
            "delta": self.delta,
            "scope": self.method.scope,
            "risk": self.method.limited_risk,
            "fixed": self.method.fixed,
            "objective": self.method.objective,
            "shuffle": self.output.order == "shuffle",
        }

    def hash(self) -> str:
        """Return the sha256 of the policy's content (not of its layout or comments)."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


def _explained(problem: ValidationError) -> str:
    """One line per mistake: where, what, and for an unknown key the nearest known one."""
    lines: dict[str, None] = {}
    for error in problem.errors():
        # pydantic names the branches of a union in the path; the publisher's own keys are what helps
        where = ".".join(str(part) for part in error["loc"] if _is_key(part)) or "policy"
        lines[f"  {where}: {_reason(error)}"] = None
    return "\n".join(lines)


def _is_key(part: str | int) -> bool:
    return isinstance(part, int) or not any(mark in part for mark in "[]()")


def _reason(error: Any) -> str:
    kind, message = error["type"], error["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        near = difflib.get_close_matches(key, _KEYS, n=1)
        return "this key is not known" + (f"; did you mean {near[0]!r}?" if near else "")
    if kind == "missing":
        return "is required"
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}, not {error['input']!r}"
    return str(message[0].lower() + message[1:])


_SECTIONS: tuple[type[Section], ...] = (
    Policy, ColumnRule, BinRule, PersonRule, MethodRule, ValueRule, GroupRule, RequirementRule, OutputRule, InputRule,
)  # fmt: skip
_KEYS = sorted({key for section in _SECTIONS for key in section.model_fields})
