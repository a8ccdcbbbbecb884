"""Robust Anatomy as a method: its options, its words, and what it claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sfumato.claims.buckets import BucketClaim
from sfumato.methods.bucketing import Bucketing, required
from sfumato.methods.plan import Plan
from sfumato.values.attributes import Schema
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, Robustness
from sfumato.values.text import did_you_mean

Names = Annotated[tuple[str, ...], Field(strict=False)]


class RobustAnatomy(Bucketing):
    """Anatomy against who knows how values depend on other columns.

    `attribute_sets` are the sets of columns that he knows of. His `prior` is any ("none"), that of the table itself
    ("table"), or read from a file for each set.
    """

    name = "robust-anatomy"
    title = "robust Anatomy"
    promise = (
        "The belief in a value is bounded for who finds the person's group, whatever he believes of how values depend "
        "on {known}; not for one who knows more columns, or others of the group."
    )
    takes = (Robustness,)
    counts_jointly = True
    rechecks = True

    attribute_sets: Annotated[tuple[Names, ...], Field(strict=False)] = ()
    prior: Literal["none", "table"] | Names = "none"

    @field_validator("attribute_sets", mode="before")
    @classmethod
    def _are_lists(cls, sets: object) -> object:
        names = [sets] if isinstance(sets, str) else sets
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            written = ", ".join(f'"{name}"' for name in names)
            raise ValueError(f"each attribute set is a list of columns: write attribute_sets = [[{written}]]")
        return sets

    @field_validator("prior", mode="before")
    @classmethod
    def _is_word_or_list(cls, prior: object) -> object:
        if isinstance(prior, str) and prior not in ("none", "table"):
            raise ValueError(
                f'a prior is "none", "table", or a list with a file for each attribute set: write prior = ["{prior}"]'
            )
        return [str(path) if isinstance(path, Path) else path for path in prior] if isinstance(prior, list) else prior

    @model_validator(mode="after")
    def _sets_fit(self) -> RobustAnatomy:
        if not self.attribute_sets or not all(self.attribute_sets):
            raise ValueError('robust-anatomy needs what the adversary knows of: attribute_sets = [["sex", "age"]]')
        if any(len(set(names)) < len(names) for names in self.attribute_sets):
            raise ValueError("an attribute set names a column twice: name each once")
        if isinstance(self.prior, tuple) and len(self.prior) != len(self.attribute_sets):
            raise ValueError(
                f"{len(self.prior)} files of priors for {len(self.attribute_sets)} attribute sets: name one for each "
                "set, in the same order"
            )
        if self.assurance == "as-published" and self.prior == "none":
            raise ValueError(
                'the paper\'s condition is about a prior: say prior = "table", or name a file for each set'
            )
        return self

    def check(self, columns: Schema) -> None:
        """Raise unless the sets name columns that are published as they are."""
        super().check(columns)
        roles = {attribute.name: attribute.role for attribute in columns.attributes}
        if wrong := [name for name in self.known_columns if name not in roles]:
            raise ValueError(
                f"method.attribute_sets names {wrong[0]!r}, which is not among the columns"
                f"{did_you_mean(wrong[0], roles)}"
            )
        if wrong := [name for name in self.known_columns if roles[name] not in ("quasi_identifier", "other")]:
            raise ValueError(
                f"method.attribute_sets names {wrong[0]!r}, which is not published as it is: name columns with the "
                "role quasi_identifier or other"
            )

    def counted(self, columns: Schema) -> tuple[str, ...]:
        """Return the columns of the attribute sets."""
        return self.known_columns

    @property
    def known_sets(self) -> tuple[tuple[str, ...], ...]:
        """The attribute sets."""
        return self.attribute_sets

    @property
    def prior_files(self) -> tuple[Path, ...]:
        """The files of the prior, from the policy's folder."""
        return () if isinstance(self.prior, str) else tuple(self.folder / name for name in self.prior)

    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        """Return what is promised."""
        at_most = required(requirement, Robustness, self.name).at_most
        prior = self.prior if isinstance(self.prior, str) else "file"
        return BucketClaim(self.name, self.assurance, sensitive, at_most, None, self.attribute_sets, prior)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        from sfumato.methods.robustness import planner

        claim = self.claim(requirement, profile.sensitive_domain.names)
        return planner.plan(profile, claim, self.prior_files)

    @classmethod
    def promised(cls, options: Mapping[str, Any]) -> str:
        """Return the promise, with the columns."""
        return cls.promise.format(known="; ".join(", ".join(names) for names in options["attribute_sets"]))

    @classmethod
    def compared(cls, known: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
        """Give the sets of columns that are known."""
        yield {"attribute_sets": known}
