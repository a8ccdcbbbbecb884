"""Several sensitive columns, each drawn by a method of its own, independently of the others given the record's values.

    K(y | z) = prod_j P_j[y_j, z_j]

A policy states the others in the sections of columns; the columns without one are one compound, as ever. What holds of
all together is in `claims/several.py` (docs/methods/proofs/several.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import SerializeAsAny

from sfumato.claims.claim import Claim
from sfumato.claims.odds import OddsClaim
from sfumato.claims.several import SeveralClaim
from sfumato.methods.method import Method
from sfumato.methods.plan import Plan
from sfumato.methods.several.figures import SeveralFigures
from sfumato.values.attributes import Schema
from sfumato.values.computed import Facts
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, Requirements


class Several(Method):
    """A method for each of some sensitive columns (`columns`), and one for all the others together (`method`)."""

    name = "several"
    title = "a method for each sensitive column"
    promise = (
        "Of each column what its own method promises, for whoever reads that column alone; the odds of any "
        "statement about the combination change by at most the product of the columns' factors."
    )
    takes = (Requirements,)
    figures = SeveralFigures
    fills_domain = True
    keeps_order = True

    method: SerializeAsAny[Method]
    columns: dict[str, SerializeAsAny[Method]]

    @classmethod
    def of(cls, method: Method, columns: Mapping[str, Method]) -> Several:
        """Return the methods as one; its assurance is the weakest."""
        weakest = min((m.assurance for m in (method, *columns.values())), key=("as-published", "proved").index)
        return cls(assurance=weakest, method=method, columns=dict(columns))

    @property
    def each(self) -> tuple[Method, ...]:
        """The methods: that of the policy, then those of columns."""
        return (self.method, *self.columns.values())

    def check(self, columns: Schema) -> None:
        """Raise unless all draw each record by itself, and fit their own columns."""
        for place, method in (
            ("[method]", self.method),
            *((f"[columns.{k}.method]", m) for k, m in self.columns.items()),
        ):
            if not method.draws_alone:
                raise ValueError(
                    f"{place} is {method.name}, which does not draw each record by one matrix for all rows, so it "
                    "cannot stand beside the method of another column: choose uniform, subset, ranges, plateau, "
                    "geometric or fine-grain there, or take the columns' own methods out"
                )
        for own, method in zip(self._schemas(columns), self.each, strict=True):
            method.check(own)

    def _schemas(self, columns: Schema) -> Iterator[Schema]:
        """Give what each method has to do with: all but the sensitive columns of others."""
        sensitive = columns.names("sensitive")
        for names in ([name for name in sensitive if name not in self.columns], *([name] for name in self.columns)):
            yield Schema(tuple(a for a in columns.attributes if a.name not in sensitive or a.name in names))

    def check_numbers(self) -> None:
        """Raise if an option of one of them is no number, or beyond its bounds."""
        for method in self.each:
            method.check_numbers()

    def named_in(self, folder: Path) -> None:
        """Say in which folder the policy is."""
        super().named_in(folder)
        for method in self.each:
            method.named_in(folder)

    @property
    def named_files(self) -> tuple[Path, ...]:
        return tuple(file for method in self.each for file in method.named_files)

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        """Return what each plan must have been made for: its method, assurance and what that asks."""
        assert isinstance(requirement, Requirements)
        each = zip(self.each, requirement.each, self._schemas(columns), strict=True)
        return tuple((method.name, method.assurance, method.asked(own, schema)) for method, own, schema in each)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        """Plan for each column by itself, and put the plans together."""
        assert isinstance(requirement, Requirements)
        each = zip(self.each, profile.by_method, requirement.each, strict=True)
        parts = tuple(method.plan(of, own, key=key) for method, of, own in each)
        claims = tuple(part.claim for part in parts if isinstance(part.claim, OddsClaim))
        names = tuple(mechanism.domain.name for part in parts for mechanism in part.mechanisms)
        figures = SeveralFigures(SeveralClaim(names, tuple(part.method for part in parts), claims), parts)
        assert profile.together is not None
        whole = replace(
            profile, observed=tuple(name for part in parts for name in part.observed), order=profile.together
        )
        return Plan.of(whole, self, figures, _notes(names, parts, profile), keeps_order=profile.keeps_order)

    def facts(self, figures: SeveralFigures) -> Facts:
        """Return what the method of each column adds, with the column."""
        each = zip(figures.claim.columns, self.each, figures.parts, strict=True)
        return tuple(f"{name}: {fact}" for name, method, part in each for fact in method.facts(part.figures))

    def claim_for(self, figures: SeveralFigures, requirement: Requirement) -> Claim:
        """Return the claims of the columns, each as its method makes it."""
        assert isinstance(requirement, Requirements)
        each = zip(self.each, figures.parts, requirement.each, strict=True)
        claims = tuple(method.claim_for(part.figures, own) for method, part, own in each)
        names = tuple(mechanism.domain.name for mechanism in figures.mechanisms)
        return SeveralClaim(
            names,
            tuple(method.name for method in self.each),
            tuple(claim for claim in claims if isinstance(claim, OddsClaim)),
        )


def _notes(names: tuple[str, ...], parts: tuple[Plan, ...], profile: Profile) -> Iterator[str]:
    """Yield what is to know of each column, with its name, and of all together."""
    shared = set(profile.column_notes)
    for name, part in zip(names, parts, strict=True):
        yield from (note if note in shared else f"{name}: {note}" for note in part.notes)
    assert profile.together is not None
    yield f"All sensitive columns together: {profile.together.statement}"
