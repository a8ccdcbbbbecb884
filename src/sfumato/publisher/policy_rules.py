"""The sections of a policy: what each may say, checked as far as it can be by itself. `Policy` puts them together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from sfumato.errors import PolicyError
from sfumato.methods import read_method
from sfumato.methods.method import Method, Probability
from sfumato.release.formats import USUAL, FormatName
from sfumato.values.attributes import LEFT_OUT_ROLES, MISSING_LABEL, Attribute, Missing, Role, Value
from sfumato.values.number_texts import ColumnType
from sfumato.values.recoding import DATE_UNITS, Bins, DateBins, DateUnit, Merge, Recoding
from sfumato.values.requirement import (
    Amplification,
    Diversity,
    FineGrainPrivacy,
    GroupLimit,
    LocalPrivacy,
    Number,
    Requirement,
    RhoPrivacy,
    RiskLimit,
    Robustness,
    SetRequirement,
    Tolerance,
    ValueRequirement,
)
from sfumato.values.section import Section

Listed = Annotated[tuple[str | bool | int, ...], Field(strict=False)]
SetValues = Annotated[tuple[str | bool | int | Listed, ...], Field(strict=False)]
EndTexts = Annotated[tuple[str, str], Field(strict=False)]
EndNumbers = Annotated[tuple[int | float, int | float], Field(strict=False)]
Limit = Annotated[int, Field(ge=2)] | None


def _is_none(value: object) -> bool:
    return value is None  # a key that is left out is not hashed: policies without it keep their hashes


def _is_false(value: object) -> bool:
    return value is False


MOST_LETTERS = 150
"""Of a text of [about]: all four fit on the first page of a report."""


class AboutRule(Section):
    """What a release is for, in the publisher's own words: for whoever signs it. No record plays a part in it."""

    title: Annotated[str | None, Field(exclude_if=_is_none)] = None
    owner: Annotated[str | None, Field(exclude_if=_is_none)] = None
    purpose: Annotated[str | None, Field(exclude_if=_is_none)] = None
    recipients: Annotated[str | None, Field(exclude_if=_is_none)] = None

    @field_validator("*")
    @classmethod
    def _fits_on_the_page(cls, text: str | None) -> str | None:
        if text is not None and not text.strip():
            raise ValueError("is empty: write it, or leave the line out and fill it in by hand on the printed page")
        if text is not None and len(text) > MOST_LETTERS:
            raise ValueError(
                f"has {len(text):,} letters, and at most {MOST_LETTERS} fit on the first page of the report: shorten it"
            )
        return text


class BinRule(Section):
    """Bins of numbers: `width` (and `origin`), or `breaks`. Bins of dates: `breaks` that are dates, or a unit.

    The unit may be written by itself: bins = "year".
    """

    unit: Annotated[DateUnit | None, Field(exclude_if=_is_none)] = None
    width: float | None = None
    origin: float = 0
    breaks: Annotated[tuple[float, ...], Field(strict=False)] | Annotated[tuple[str, ...], Field(strict=False)] = ()

    @field_validator("breaks", mode="before")
    @classmethod
    def _are_of_one_kind(cls, breaks: object) -> object:
        if not isinstance(breaks, list) or all(isinstance(x, int | float) for x in breaks):
            return breaks
        if any(isinstance(x, int | float) for x in breaks):
            raise ValueError("breaks are all numbers, or all dates")
        return [_date(x).isoformat() for x in breaks]

    @model_validator(mode="after")
    def _dates_have_breaks_only(self) -> BinRule:
        if (self._dates or self.unit) and len(self.model_fields_set) > 1:
            raise ValueError(
                "bins of dates have a unit or breaks, and nothing else: a width and an origin are for numbers"
            )
        return self

    @property
    def _dates(self) -> tuple[str, ...]:
        return tuple(x for x in self.breaks if isinstance(x, str))

    def recoding(self) -> Bins | DateBins:
        if self.unit:
            return DateBins(self.unit)
        if self._dates:
            return DateBins(breaks=tuple(dt.date.fromisoformat(x) for x in self._dates))
        return Bins(self.width, self.origin, tuple(x for x in self.breaks if not isinstance(x, str)))


class ColumnRule(Section):
    """What a column is."""

    role: Role
    domain: Literal["observed"] | Listed = "observed"
    bins: BinRule | None = None
    merge: Annotated[dict[str, Listed] | None, Field(exclude_if=_is_none)] = None
    missing: Missing = "error"
    publish_as_is: str | None = None
    from_table: bool = False
    type: Annotated[ColumnType | None, Field(exclude_if=_is_none)] = None
    ordered: Annotated[bool, Field(exclude_if=_is_false)] = False
    method: Annotated[SerializeAsAny[Method] | None, BeforeValidator(read_method), Field(exclude_if=_is_none)] = None
    requirement: Annotated[RequirementRule | None, Field(exclude_if=_is_none)] = None

    @field_validator("domain", mode="before")
    @classmethod
    def _is_observed_or_list(cls, domain: object) -> object:
        if domain != "observed" and not isinstance(domain, list | tuple):
            listed = f'"{domain}"' if isinstance(domain, str) else domain
            raise ValueError(f'a domain is "observed", or a list of all values: write domain = [{listed}, ...]')
        wrong = [v for v in domain if not isinstance(v, str | int)] if isinstance(domain, list) else []
        if wrong:
            raise ValueError(
                f"a domain lists texts, whole numbers and truth values, not {wrong[0]!r}: decimal numbers and dates "
                "need bins"
            )
        return domain

    @field_validator("bins", mode="before")
    @classmethod
    def _is_word_or_table(cls, bins: object) -> object:
        if bins in DATE_UNITS:
            return {"unit": bins}
        if isinstance(bins, str | int | float | list):
            meant = f"{{ breaks = {bins} }}" if isinstance(bins, list) else f"{{ width = {bins} }}"
            raise ValueError(
                f'bins are "year", "quarter" or "month" (of dates), {{ width = 10 }} or {{ breaks = [18, 65] }}; '
                f"not {bins!r}" + ("" if isinstance(bins, str) else f": write bins = {meant}")
            )
        return bins

    @field_validator("merge", mode="before")
    @classmethod
    def _is_table_of_lists(cls, merge: object) -> object:
        if merge is not None and (not isinstance(merge, dict) or not all(isinstance(v, list) for v in merge.values())):
            raise ValueError(
                'merge takes new names with lists of values, such as { respiratory = ["COPD", "asthma"] }; '
                f"not {merge!r}"
            )
        wrong = [v for values in (merge or {}).values() for v in values if not isinstance(v, str | int)]
        if wrong:
            raise ValueError(f"merge takes texts, whole numbers and truth values, not {wrong[0]!r}")
        return merge

    @field_validator("publish_as_is", mode="before")
    @classmethod
    def _has_a_reason(cls, reason: object) -> object:
        if reason is not None and (not isinstance(reason, str) or not reason.strip()):
            raise ValueError('publish_as_is takes the reason, in quotes: publish_as_is = "the register is public"')
        return reason

    @model_validator(mode="after")
    def _keys_go_together(self) -> ColumnRule:
        if self.publish_as_is is not None and self.role not in ("quasi_identifier", "other"):
            raise ValueError(f"publish_as_is goes with the role quasi_identifier or other, not with {self.role}")
        if self.role in LEFT_OUT_ROLES and (self.bins or self.merge or self.domain != "observed"):
            what = "an identifier is dropped" if self.role == "identifier" else "the column is dropped"
            raise ValueError(f"{what}: it takes no domain, no bins and no merge; leave them out")
        if self.bins and self.merge is not None:
            raise ValueError(
                "bins and merge do not go together: bins make new values, and merge names those of the table; "
                "coarser bins need a larger width or fewer breaks"
            )
        if self.type and (self.merge or isinstance(self._recoding(), DateBins)):
            raise ValueError("type does not go with merge or bins of dates: what these publish is text")
        if (self.method is None) != (self.requirement is None):
            lacking = "requirement" if self.requirement is None else "method"
            raise ValueError(
                f"a column's own method and requirement come together: add [columns.NAME.{lacking}], or leave both out "
                "(the sections [method] and [requirement] are for all columns without their own)"
            )
        if self.method is not None and self.role != "sensitive":
            raise ValueError(
                f"a method of its own is for a sensitive column, and the role is {self.role}: leave it out, with its "
                'requirement, or write role = "sensitive"'
            )
        if self.ordered and self.role in LEFT_OUT_ROLES:
            raise ValueError("ordered does not go with a column that is left out of the release; leave it out, too")
        if self.ordered and self.domain == "observed" and not self.bins:
            raise ValueError(
                "ordered = true needs the order: list the values from the lowest to the highest, such as "
                'domain = ["low", "middle", "high"]. Numbers and bins are in order without it'
            )
        return self

    def facts_from_table(self, name: str) -> Iterator[str]:
        """Give what the rule says that was read off the table, until somebody confirms it."""
        facts = {
            f"the bins of {name}": self.bins,
            f"which values of {name} are merged": self.merge,
            # an observed one is read off the table in any case, and listed as such
            f"the domain of {name}, as the policy lists it": self.domain != "observed",
            f"that {name} has missing values": self.missing != "error",
        }
        yield from (fact for fact, stated in facts.items() if stated and self.from_table)
        if self.requirement is not None:
            yield from (f"{fact}, of {name}" for fact in self.requirement.facts_from_table())

    def attribute(self, name: str) -> Attribute:
        try:
            recoding = self._recoding()
            declared = self._declared(recoding)
        except PolicyError as problem:
            raise PolicyError(f"{name!r}: {problem.message}", problem.hint) from None
        if declared is not None and self.missing == "category":
            declared = (*declared, None)
        # bins are in order by themselves, whether all of them are declared or not
        is_listed = self.ordered and self.domain != "observed"
        return Attribute(name, self.role, self.missing, declared, recoding, self.type, is_listed)

    def _recoding(self) -> Recoding | None:
        if self.merge is not None:
            if MISSING_LABEL in self.merge:
                raise PolicyError(
                    f"merge: {MISSING_LABEL!r} is how a missing value is written.", "Choose another name."
                )
            return Merge(tuple((name, tuple(map(_written, values))) for name, values in self.merge.items()))
        return self.bins.recoding() if self.bins else None

    def _declared(self, recoding: Recoding | None) -> tuple[Value, ...] | None:
        """Return the declared domain: of published values, so of labels where they are recoded."""
        if self.domain == "observed":
            return recoding.all_labels() if recoding else None
        if recoding is None or isinstance(recoding, Bins):
            return tuple(self.domain)
        labels = tuple(map(_written, self.domain))
        if isinstance(recoding, Merge):
            recoding.check_domain(labels)
        else:
            for label in labels:
                recoding.check_label(label)
        return labels


def _written(value: str | bool | int) -> str:
    """Return a value as a text file has it: 7 as "7", true as "true"."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _date(value: object) -> dt.date:
    """Return a date of TOML, or one in quotes."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    try:
        if isinstance(value, str) and len(value) == len("2019-01-01"):
            return dt.date.fromisoformat(value)
    except ValueError:
        pass
    raise ValueError(f"{str(value)!r} is no date: breaks are numbers, or dates like 2019-01-01")


class PersonRule(Section):
    """Which column tells persons apart, and what to do about several rows of one person."""

    column: str
    repeated: Literal["error", "keep-one", "per-row"] = "error"


class ValueRule(Section):
    """rho1 and rho2, gamma, or epsilon: of one `value`, or of a set of values together.

    A set is a list of `values`, all that start with a `prefix`, or all `between` two ends; `column` names the column
    where several are sensitive. `given` names the background knowledge that it is for.
    """

    value: Annotated[str | int | bool | Listed | None, Field(exclude_if=_is_none)] = None
    values: Annotated[SetValues | None, Field(exclude_if=_is_none)] = None
    prefix: Annotated[str | None, Field(exclude_if=_is_none)] = None
    between: Annotated[EndTexts | EndNumbers | None, Field(exclude_if=_is_none)] = None
    column: Annotated[str | None, Field(exclude_if=_is_none)] = None
    rho1: Annotated[Probability | None, Field(exclude_if=_is_none)] = None
    rho2: Annotated[Probability | None, Field(exclude_if=_is_none)] = None
    gamma: Annotated[Probability | None, Field(exclude_if=_is_none)] = None
    epsilon: Annotated[Probability | None, Field(exclude_if=_is_none)] = None
    given: str = ""

    @field_validator("between", mode="before")
    @classmethod
    def _are_two_ends(cls, ends: object) -> object:
        is_pair = isinstance(ends, list | tuple) and len(ends) == 2
        kinds = {isinstance(end, str) for end in ends} if is_pair else set()  # type: ignore[attr-defined]
        if ends is not None and (len(kinds) != 1 or any(isinstance(end, bool) for end in ends)):  # type: ignore[attr-defined]
            raise ValueError(
                f'between takes two texts, such as ["A00", "B99"], or two numbers, such as [390, 459.99]; not {ends!r}'
            )
        return ends

    @model_validator(mode="after")
    def _is_of_values(self) -> ValueRule:
        stated = {"value": self.value, "values": self.values, "prefix": self.prefix or None, "between": self.between}
        named = [key for key, given in stated.items() if given not in (None, ())]  # "" may be a value
        if len(named) != 1:
            raise ValueError(
                f"an entry is about one value or one set; this names {' and '.join(named) if named else 'none'} "
                '(choose value = "HIV", values = ["HIV", "hepatitis B"], prefix = "B2" or between = ["A00", "B99"])'
            )
        if self.value is not None and self.column is not None:
            raise ValueError("column goes with values, prefix or between, not with value: leave it out")
        bounds = [key for key in ("rho2", "gamma", "epsilon") if getattr(self, key) is not None]
        if (self.rho1 is None) != (self.rho2 is None):
            lacking = "rho1" if self.rho1 is None else "rho2"
            raise ValueError(f"rho1 and rho2 go together: add {lacking}")
        if len(bounds) != 1:
            raise ValueError("state one bound of an entry: rho1 and rho2, gamma, or epsilon")
        return self

    def requirement(self) -> ValueRequirement | SetRequirement:
        """Return the entry as a value of the model."""
        bound = {key: getattr(self, key) for key in ("rho1", "rho2", "gamma", "epsilon", "given")}
        if self.value is not None:
            return ValueRequirement(self.value, **bound)
        return SetRequirement(self.values or (), self.prefix, self.between, self.column, **bound)


class GroupRule(Section):
    """A risk limit of its own for the records with these values: `l` or `risk_limit`."""

    where: dict[str, str | int | bool | Listed]
    l: Limit = None  # noqa: E741
    risk_limit: Probability | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> GroupRule:
        if (self.l is None) == (self.risk_limit is None):
            raise ValueError("give either l or risk_limit: l = 4 and risk_limit = 0.25 mean the same")
        return self

    def limit(self) -> GroupLimit:
        where = tuple((name, v if isinstance(v, tuple) else (v,)) for name, v in self.where.items())
        return GroupLimit(where, _limit(self.l, self.risk_limit))


OWN_KEYS: dict[type[Requirement], tuple[str, ...]] = {
    RiskLimit: ("l", "risk_limit"),
    Diversity: ("l",),
    Robustness: ("r",),
}
"""The keys of requirements that some methods take, instead of all others."""
LIMITS = ("rho1", "rho2", "tolerance", "gamma", "epsilon", "l", "r", "risk_limit")  # the numbers of a requirement


class RequirementRule(Section):
    """One of: rho1 and rho2, gamma, or epsilon (with `values` for exceptions); values alone; tolerance and rho1.

    Randomized response takes another one: l or risk_limit, with `groups` for exceptions. The methods that publish
    groups take l, and robust-anatomy r.
    """

    rho1: Literal["observed"] | Probability | dict[str, Probability] | None = None
    rho2: Probability | None = None
    values: Annotated[tuple[ValueRule, ...], Field(strict=False)] = ()
    others: Literal["unprotected"] | None = None
    tolerance: Probability | None = None
    gamma: Probability | None = None
    epsilon: Probability | None = None
    l: Limit = None  # noqa: E741
    r: Limit = None
    risk_limit: Probability | None = None
    groups: Annotated[tuple[GroupRule, ...], Field(strict=False)] = ()
    from_table: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> RequirementRule:
        stated = [key for key in LIMITS if key not in ("rho1", "rho2") and getattr(self, key) is not None]
        has_default = stated in (["gamma"], ["epsilon"]) and self.rho2 is None  # with values for exceptions
        stated += ["rho2 or values"] if self.rho2 is not None or (self.values and not has_default) else []
        if not stated and self.rho1 is not None:
            raise ValueError(
                "rho1 and rho2 go together: rho1 is the highest belief beforehand that is protected, and rho2, above "
                "it, the highest belief allowed afterwards; add rho2"
            )
        if len(stated) != 1:
            raise ValueError(
                f"state one requirement; this states {' and '.join(stated) if stated else 'none'} "
                "(choose rho1 and rho2, values, tolerance with rho1, gamma, epsilon, l, r, or risk_limit)"
            )
        is_table = self.rho1 == "observed" or isinstance(self.rho1, dict)
        if stated == ["tolerance"] and not is_table:
            raise ValueError(
                'a tolerance needs rho1: a table of public probabilities, or rho1 = "observed" in words, '
                "because publishing the matrix then discloses the table's own frequencies"
            )
        if stated != ["tolerance"] and is_table:
            raise ValueError(
                'rho1 = "observed" or a table of rho1 goes with a tolerance: add tolerance = 3, or write one number, '
                "such as rho1 = 0.2"
            )
        if stated[0] not in ("tolerance", "rho2 or values") and self.rho1 is not None:
            raise ValueError("gamma or epsilon stand alone, without rho1; so do l, r and risk_limit")
        if self.groups and stated[0] not in ("l", "risk_limit"):
            raise ValueError("groups go with an l or a risk_limit for all other records")
        if stated != ["tolerance"] and (self.rho1 is None) != (self.rho2 is None):
            raise ValueError("rho1 and rho2 go together: add rho1, the highest belief beforehand that is protected")
        if self.others and (self.rho2 is not None or has_default or not self.values):
            raise ValueError('others = "unprotected" goes with values, without a bound for all others')
        return self

    def facts_from_table(self) -> Iterator[str]:
        """Give what the rule says that was read off the table, until somebody confirms it."""
        if self.from_table:
            stated = [key for key in LIMITS if getattr(self, key) is not None]
            yield f"{' and '.join(stated) or 'the values'} of the requirement"

    def requirement(self, taken: Collection[type[Requirement]]) -> Requirement:
        """Return the rule as a value of the model: l is a risk limit or of shares in groups, as the method takes it."""
        if self.r is not None:
            return Robustness(self.r)
        if self.l is not None and Diversity in taken:
            return Diversity(self.l)
        if self.l is not None or self.risk_limit is not None:
            return RiskLimit(_limit(self.l, self.risk_limit), tuple(group.limit() for group in self.groups))
        if self.tolerance is not None:
            return Tolerance(self.tolerance, self.rho1)  # type: ignore[arg-type]
        overall = self._overall()
        if overall and not self.values:
            return overall
        entries = tuple(entry.requirement() for entry in self.values)
        return FineGrainPrivacy(entries, overall, self.others == "unprotected")

    def _overall(self) -> RhoPrivacy | Amplification | LocalPrivacy | None:
        """Return what is required of all values that no entry names."""
        if self.gamma is not None:
            return Amplification(self.gamma)
        if self.epsilon is not None:
            return LocalPrivacy(self.epsilon)
        return None if self.rho2 is None else RhoPrivacy(self.rho1, self.rho2)  # type: ignore[arg-type]


ColumnRule.model_rebuild()  # a column may have a requirement of its own


def _limit(l: int | None, risk_limit: Probability | None) -> Number:  # noqa: E741
    """Return the limit that is stated by one of the two."""
    return Fraction(1, l) if l is not None else risk_limit or 0


class OutputRule(Section):
    """How the release is written. `order`: a random one, or (keep) the table's, which is refused where it tells.

    `formulas`: what becomes of text in CSV files that a spreadsheet program would calculate (`show/formulas.py`).
    """

    format: FormatName = USUAL
    order: Literal["shuffle", "keep"] = "shuffle"
    formulas: Annotated[Literal["keep", "escape"], Field(exclude_if=lambda stated: stated == "keep")] = "keep"

    @field_validator("order", mode="before")
    @classmethod
    def _is_stated(cls, order: object) -> object:
        if order == "auto":
            raise ValueError(
                'order = "auto" is no longer there: whether rows were shuffled was decided by a test on the sensitive '
                'value, and told its result. Leave it out (rows are shuffled), or say order = "keep"'
            )
        return order
