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
    LocalPrivacy,
    Requirement,
    RhoPrivacy,
    Tolerance,
    ValueRequirement,
    exact,
)

MethodName = Literal["uniform", "fine-grain", "small-domain"]
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

    @model_validator(mode="after")
    def _keys_fit(self) -> MethodRule:
        only_for = {
            "retention_floor": ("uniform", "fine-grain"),
            "weights": ("fine-grain",),
            "minimum_sub_table": ("small-domain",),
            "delta": ("small-domain",),
        }
        for key, methods in only_for.items():
            if key in self.model_fields_set and self.name not in methods:
                raise ValueError(f"{key} does not go with {self.name}, only with {' and '.join(methods)}")
        return self


class ValueRule(Section):
    """(rho1, rho2) of one value; `given` names the background knowledge that it is for."""

    value: str | int | bool | Annotated[tuple[str | int | bool, ...], Field(strict=False)]
    rho1: Probability
    rho2: Probability
    given: str = ""


class RequirementRule(Section):
    """One of: rho1 and rho2 (with `values` for exceptions); values alone; tolerance and rho1; gamma; epsilon."""

    rho1: Literal["observed"] | Probability | dict[str, Probability] | None = None
    rho2: Probability | None = None
    values: Annotated[tuple[ValueRule, ...], Field(strict=False)] = ()
    others: Literal["unprotected"] | None = None
    tolerance: Probability | None = None
    gamma: Probability | None = None
    epsilon: Probability | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> RequirementRule:
        kinds = {
            "tolerance": self.tolerance is not None,
            "gamma": self.gamma is not None,
            "epsilon": self.epsilon is not None,
            "rho2 or values": self.rho2 is not None or bool(self.values),
        }
        stated = [kind for kind, given in kinds.items() if given]
        if len(stated) != 1:
            raise ValueError(
                f"state one requirement; this states {' and '.join(stated) if stated else 'none'} "
                "(choose rho1 and rho2, values, tolerance with rho1, gamma, or epsilon)"
            )
        if self.tolerance is not None and not (self.rho1 == "observed" or isinstance(self.rho1, dict)):
            raise ValueError(
                'a tolerance needs rho1: a table of public probabilities, or rho1 = "observed" in words, '
                "because publishing the matrix then discloses the table's own frequencies"
            )
        if self.tolerance is None and (isinstance(self.rho1, dict) or self.rho1 == "observed"):
            raise ValueError('rho1 = "observed" or a table of rho1 goes with a tolerance')
        if (self.gamma is not None or self.epsilon is not None) and self.rho1 is not None:
            raise ValueError("gamma or epsilon stand alone, without rho1")
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
        if self.tolerance is not None:
            return Tolerance(self.tolerance, self.rho1)  # type: ignore[arg-type]
        overall = None if self.rho2 is None else RhoPrivacy(self.rho1, self.rho2)  # type: ignore[arg-type]
        if overall and not self.values:
            return overall
        entries = tuple(ValueRequirement(v.value, v.rho1, v.rho2, v.given) for v in self.values)
        return FineGrainPrivacy(entries, overall, self.others == "unprotected")


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
    Policy, ColumnRule, BinRule, PersonRule, MethodRule, ValueRule, RequirementRule, OutputRule, InputRule,
)  # fmt: skip
_KEYS = sorted({key for section in _SECTIONS for key in section.model_fields})
