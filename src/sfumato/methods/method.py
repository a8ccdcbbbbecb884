"""What a method is: the [method] section of a policy, typed, and all that the rest of the house asks of a method."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_serializer

from sfumato.claims.claim import Claim
from sfumato.errors import PolicyError, TableError
from sfumato.methods.plan import Figures, Plan
from sfumato.show.reading import read_csv
from sfumato.values.arrays import Assurance
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.computed import Facts
from sfumato.values.looks import refuse
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, exact, probability_hint
from sfumato.values.section import Section


def _written(number: object) -> object:
    return str(number) if isinstance(number, Fraction) else number


Probability = Annotated[float | str, BeforeValidator(_written)]
"""A number as it is written in a policy: 0.05, or "1/20"."""


def between(number: float | str, name: str, *, strictly: bool) -> Fraction:
    """Return an option that is a probability; raise if it is none."""
    found = exact(number, f"method.{name}")
    if not (0 < found < 1 if strictly else 0 <= found <= 1):
        raise PolicyError(
            f"method.{name} must lie {'strictly ' if strictly else ''}between 0 and 1, not {float(found):g}.",
            probability_hint(name, found),
        )
    return found


def csv_lines(path: Path, what: str) -> list[list[str]]:
    """Return the lines of a CSV file that an option names; `what`: who is looked for in the policy's folder."""
    try:
        return list(read_csv(path, strict=True))
    except FileNotFoundError:
        raise PolicyError(f"There is no file {str(path)!r}.", f"{what} looked for in the policy's folder.") from None
    except (OSError, ValueError, csv.Error) as problem:
        raise PolicyError(f"{path} cannot be read as CSV: {problem}.", "Give a CSV file in UTF-8.") from None


class Method(Section, ABC):
    """A method with its options. Each has a home, which loads its planner when it plans; `METHODS` lists all.

    A new one states the class variables, its options as fields, and `_planned`.
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[type[Requirement], ...]]
    title: ClassVar[str]
    """What it is called in a sentence."""
    promise: ClassVar[str]
    """What is bounded, and against whom."""
    avoid_if: ClassVar[str]
    """When not to use it."""
    figures: ClassVar[type[Figures]]
    """Of what kind the figures of its plans are."""

    publishes_buckets: ClassVar[bool] = False
    """Whether two tables are published, joined by the number of a bucket."""
    counts_jointly: ClassVar[bool] = False
    """Whether other columns are counted together with the sensitive ones: see `counted`."""
    fills_domain: ClassVar[bool] = False
    """Whether noise reaches every value of the domain, also those that do not occur."""
    draws_plan: ClassVar[bool] = False
    """Whether a plan is drawn: the next one for the same table is another."""
    slow_to_plan: ClassVar[bool] = False
    """Whether a plan can take seconds or minutes, also of few values."""
    keeps_order: ClassVar[bool] = False
    """Whether rows can stay in the table's order."""
    added: ClassVar[tuple[str, ...]] = ()
    """The columns that it adds."""
    why_not_one: ClassVar[str] = ""
    """Why it cannot publish one drawn row of each person, if so."""
    drawn_anew: ClassVar[str] = ""
    """What of a record is drawn in every release anew, so that no record key goes with it; else nothing."""
    draws_alone: ClassVar[bool] = False
    """Whether every record is drawn by itself, by one matrix for all rows: such methods can stand side by side."""
    rechecks: ClassVar[bool] = False
    """Whether its figures are checked against the table's counts (`Figures.recheck`) before anything is published."""
    for_order: ClassVar[bool] = False
    """Whether it is for values in order alone."""
    proposed: ClassVar[str] = ""
    """What a proposed policy says of it, where it is the one with the least error; nothing: it is never proposed so."""
    alternative: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    """What a proposed policy says of it as another choice for values in order, and its lines; None: nothing."""
    left_out: ClassVar[str] = ""
    """Why it is tried beside others only where a policy asks for it, in one line; nothing: it is tried."""
    beside_uniform: ClassVar[str] = ""
    """What to do, or to know, where plain uniform perturbation estimates counts better; nothing: not compared so."""

    assurance: Annotated[
        Assurance,
        Field(
            description="proved: the promise holds as it is told here. as-published: what the paper states, which is "
            "known to fail for some methods."
        ),
    ] = "proved"
    _folder: Path = PrivateAttr(default=Path())

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as problem:
            wrong = "; ".join(
                ": ".join([*map(str, error["loc"][:1]), error["msg"].removeprefix("Value error, ")])
                for error in problem.errors()
            )
            name = type(self).__name__
            raise PolicyError(f"{name}: {wrong}.", f"help(sf.{name}) tells its options.") from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # a policy's own errors name the place

    @model_serializer(mode="wrap")
    def _with_name(self, options: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {"name": self.name, **options(self)}

    # --- what a policy asks ---------------------------------------------------------------------------------------

    def check(self, columns: Schema) -> None:
        """Raise `ValueError` unless columns and options fit."""

    def check_numbers(self) -> None:
        """Raise `PolicyError` if an option is no number, or beyond its bounds."""

    def counted(self, columns: Schema) -> tuple[str, ...]:
        """Return the columns that are counted together with the sensitive ones."""
        return ()

    def randomized(self, columns: Schema) -> tuple[str, ...]:
        """Return the columns that may be randomized, besides the sensitive ones."""
        return ()

    @property
    def folder(self) -> Path:
        """Where files lie that options name: the policy's folder."""
        return self._folder

    def by_whole_paths(self) -> dict[str, Any]:
        """Return the options that name files, with the files' whole paths: so that the policy can lie elsewhere."""
        return {}

    @property
    def named_files(self) -> tuple[Path, ...]:
        """The files that options name."""
        return self.prior_files

    def named_in(self, folder: Path) -> None:
        """Say in which folder the policy is."""
        self._folder = folder

    @property
    def known_sets(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns on which an adversary's beliefs may depend, where the method is about such."""
        return ()

    @property
    def prior_files(self) -> tuple[Path, ...]:
        """The files with an adversary's beliefs, one for each set; none if they come from elsewhere."""
        return ()

    @property
    def known_columns(self) -> tuple[str, ...]:
        """The columns of all known sets, each once."""
        return tuple(dict.fromkeys(name for names in self.known_sets for name in names))

    # --- planning -------------------------------------------------------------------------------------------------

    def plan(self, profile: Profile, requirement: Requirement, *, key: SecretKey | None = None) -> Plan:
        """Return the plan for a profile; raise `Infeasible` with the nearest that is feasible."""
        if profile.rows == 0:
            raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
        refuse(profile.stops)
        _check_domain(profile)
        if not self.counts_jointly:
            self._check_alone(profile)
        return self._planned(profile, requirement, key)

    @classmethod
    def walked_to_plan(cls, sizes: Sequence[int]) -> int:
        """Return about how many cells planning walks over, where it does so over whole tables, and is not refused.

        `sizes`: of each quasi-identifier, then of the sensitive columns together.
        """
        return 0

    @abstractmethod
    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        """Plan for a profile that can be published. The planner is imported here, and not before."""

    def _check_alone(self, profile: Profile) -> None:
        """Raise unless the profile is of the sensitive columns alone, and of several values."""
        if profile.quasi_identifiers:
            raise PolicyError(
                f"The profile counts quasi-identifiers, which {self.name} does not randomize.",
                "Count again with a policy that asks for this method.",
            )
        if profile.domain.size < 2:
            raise TableError(
                f"{profile.domain.name!r} has one value only: every release tells it of everybody.",
                "Declare the whole domain, or choose another sensitive column."
                if self.fills_domain
                else "Choose another sensitive column.",  # the others need that several values occur
            )

    def facts(self, figures: Any) -> Facts:
        """Return what its plans show that was computed from the table, besides what claim and columns say."""
        return ()

    def limits(self, figures: Any) -> tuple[str, ...]:
        """Return what the guarantee of a plan does not cover, besides what the claim says."""
        return ()

    def claim_for(self, figures: Any, requirement: Requirement) -> Claim:
        """Return what a plan with these figures may claim; `asked` holds what all of it follows from, unless said."""
        claim: Claim = figures.claim
        return claim

    def hides(self, columns: Schema, names: Sequence[str]) -> bool:
        """Whether these are the columns that a plan must hide."""
        return sorted(names) == sorted(columns.names("sensitive"))

    def recheck(self, plan: Plan, profile: Profile) -> None:
        """Raise unless a plan keeps what it promises for a table as it is counted now."""
        plan.figures.recheck(plan, profile)

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        """Return what a plan must have been made for, besides name and assurance: see `Figures.meets`."""
        return None

    # --- beside other methods ---------------------------------------------------------------------------------------

    @classmethod
    def unfit(cls, domain: SensitiveDomain) -> str:
        """Return in one line why it is not for such values; nothing where it is."""
        return ""

    def released_as(self) -> Method:
        """Return the method with options under which it publishes the same, the same for all that do."""
        return self

    @classmethod
    def label(cls, options: Mapping[str, Any]) -> str:
        """Return what it is called beside other methods: its name, with the option that makes another method of it."""
        return cls.name

    @classmethod
    def promised(cls, options: Mapping[str, Any]) -> str:
        """Return the promise, with what the options add."""
        return cls.promise

    @classmethod
    def compared(cls, known: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
        """Give the options under which it is compared with others; `known`: sets of columns for an adversary."""
        yield {}


def _check_domain(profile: Profile) -> None:
    """Refuse a sensitive column such as notes or exact amounts: its domain would be a list of people's values."""
    for name, values in profile.nearly_unique():
        raise PolicyError(
            f"The sensitive column {name!r} is nearly unique: {values:,} different values in {profile.rows:,} records. "
            "The release lists the values, and noise over so many leaves nothing of a record.",
            f'Make {name!r} coarser (bins for numbers and dates, merge for texts), leave it out (role = "drop"), or '
            "choose another sensitive column.",
        )
