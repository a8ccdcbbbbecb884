"""The cards of a release against the public search: honest ones pass, and cards that the table chose are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor.attackers.deck import ATTACKER, differing, parted
from sfumato.auditor.finding import Finding
from sfumato.methods.method import Method
from sfumato.methods.ordered.ranges import Ranges
from sfumato.methods.subset.method import Subset
from sfumato.publisher.policy import Policy
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.deck import DeckMatrix
from sfumato.values.matrix.graded import GradedMatrix
from sfumato.values.matrix.windows import Parts, WindowsMatrix
from tests.conftest import make_policy
from tests.engines.tools import released

VALUES = tuple(f"v{k:02}" for k in range(12))
GAMMA = Fraction(3)
OWN = "gamma = 9\n" + "".join(f'[[requirement.values]]\nvalue = "{value}"\ngamma = 3\n' for value in VALUES[:4])


def asked(method: str, options: str, requirement: str = "gamma = 3") -> Policy:
    order = "; ordered = true" if method == "ranges" else ""
    roles = {"age": "quasi_identifier", "disease": f"sensitive; domain = {list(VALUES)}{order}"}
    return make_policy(roles, requirement, method, options=options)


POLICIES = {
    f"{name}, {form}s": asked(method, f"form = '{form}'\n{options}", requirement)
    for form in ("set", "card")
    for name, method, options, requirement in (
        ("subset", "subset", "", "gamma = 3"),
        ("subset, members stated", "subset", "members = 2", "gamma = 3"),
        ("graded", "subset", "graded = true", OWN),
        ("graded, one gamma", "subset", "graded = true", "gamma = 3"),
        ("ranges", "ranges", "", "gamma = 3"),
        ("ranges beside values", "ranges", "mixed_with = 'values'", "gamma = 3"),
    )
}


def people(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({"age": rng.permutation(n).tolist(), "disease": rng.choice(VALUES, n).tolist()})


def deck_findings(policy: Policy, release: Release) -> dict[str, Finding]:
    found = sf.audit(sf.scan(people(), policy), release, seed=1).findings
    return {finding.about: finding for finding in found if finding.attacker == "deck"}


@pytest.mark.parametrize("name", POLICIES)
def test_honest_cards_are_those_of_the_search(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]
    found = deck_findings(policy, released(people(), policy, folder=tmp_path / "r"))
    assert {about: (each.verdict, each.worst) for about, each in found.items()} == {
        "cards": ("within the bound", 0),
        "weights": ("within the bound", 0),
    }


# --- planted ----------------------------------------------------------------------------------------------------------

Planted = Callable[[Matrix], Matrix]


def fewer_blocks(matrix: Matrix) -> Matrix:
    """The block that serves this table best, say, in place of all."""
    assert isinstance(matrix, DeckMatrix)
    return DeckMatrix.within(matrix.values, matrix.blocks[1:2], GAMMA)


def another_size(matrix: Matrix) -> Matrix:
    """Sets with a value less than are best, or stated."""
    assert isinstance(matrix, DeckMatrix)
    blocks = np.arange(matrix.members - 1, dtype=np.int32)[None]
    return DeckMatrix.within(matrix.values, blocks, GAMMA)


def stricter(matrix: Matrix) -> Matrix:
    """The same cards with another gamma, which the table might choose."""
    assert isinstance(matrix, DeckMatrix)
    return DeckMatrix.within(matrix.values, matrix.blocks, GAMMA - Fraction(1, 10_000))


def another_block(matrix: Matrix) -> Matrix:
    """One member of a class of one block is another one."""
    assert isinstance(matrix, GradedMatrix)
    orbits = list(matrix.orbits)
    for o, orbit in enumerate(orbits):
        for a, blocks in enumerate(orbit.blocks):
            if blocks is not None and 0 < blocks.shape[1] < matrix.rings[a]:
                free = np.setdiff1d(np.arange(matrix.rings[a]), blocks[0])
                changed = blocks.copy()
                changed[0] = np.sort(np.append(blocks[0, 1:], free[-1]))
                orbits[o] = replace(orbit, blocks=(*orbit.blocks[:a], changed, *orbit.blocks[a + 1 :]))
                return replace(matrix, orbits=tuple(orbits))
    raise AssertionError("no class is split")


def wider(matrix: Matrix) -> Matrix:
    assert isinstance(matrix, WindowsMatrix)
    parts = matrix.parts
    return Parts.within(parts.order, parts.width + 1, 0.5, np.array(parts.blocks), GAMMA).matrix()


def another_share(matrix: Matrix) -> Matrix:
    """A thousandth of the records publish windows in place of sets."""
    assert isinstance(matrix, WindowsMatrix)
    parts = matrix.parts
    m, (inside, _), (outside, _) = len(parts.order), parts.inside, parts.outside
    share = (parts.width * inside + (m - 1) * outside) / 2**64
    return Parts.within(parts.order, parts.width, share + 0.001, np.array(parts.blocks), GAMMA).matrix()


FAULTS: dict[str, tuple[type[Method], str, Planted, str]] = {
    "a deck of one block": (Subset, "subset, cards", fewer_blocks, "cards"),
    "smaller sets": (Subset, "subset, cards", another_size, "cards"),
    "sets that are not of the size that is asked for": (Subset, "subset, members stated, cards", another_size, "cards"),
    "another gamma": (Subset, "subset, cards", stricter, "weights"),
    "another graded block": (Subset, "graded, cards", another_block, "cards"),
    "wider windows": (Ranges, "ranges, sets", wider, "cards"),
    "more windows": (Ranges, "ranges, sets", another_share, "weights"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_cards_that_the_table_chose_are_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is drawn with what it states, keeps its bounds, and passes every check but this one."""
    method, name, planted, about = FAULTS[fault]
    policy, search = POLICIES[name], method.matrix_for  # type: ignore[attr-defined]
    with monkeypatch.context() as made:
        made.setattr(method, "matrix_for", lambda *given: planted(search(*given)))
        release = released(people(), policy, folder=tmp_path / "r")
    found = sf.audit(sf.scan(people(), policy), release, seed=1)
    assert [(f.attacker, f.about) for f in found.findings if f.verdict == "above the bound"] == [("deck", about)]
    assert "NOT MADE AS IT SAYS" in found.explain()
    assert not [c for c in release.verify().checks if c.status == "fails" and c.name != "secret key"]


def test_the_share_of_other_cards_by_hand() -> None:
    """Four values: of the shifts of {0, 1} and {0, 2} none is the same; a deck more has four cards of eight."""
    one, other, both = (
        DeckMatrix.within(4, np.array(blocks, dtype=np.int32), GAMMA)
        for blocks in ([[0, 1]], [[0, 2]], [[0, 1], [0, 2]])
    )
    assert (differing(one, one), differing(one, other), differing(one, both)) == (0, 1, 0.5)


def test_integers_are_told_from_cards() -> None:
    written = {"graded": {"classes": [0, 1], "orbits": [{"blocks": [None], "inside": ["5"], "outside": ["3"]}]}}
    assert parted(written) == ({"graded": {"classes": [0, 1], "orbits": [{"blocks": [None]}]}}, [5, 3])
    assert parted({"columns": [["1", "2"], ["3", "4"]], "cards": [[0], [1]]}) == ({"cards": [[0], [1]]}, [1, 2, 3, 4])


def test_audits_of_values_do_not_mention_it_and_those_of_several_columns_name_the_column(tmp_path: Path) -> None:
    policy = asked("uniform", "")
    release = released(people(), policy, folder=tmp_path / "r")
    found = sf.audit(sf.scan(people(), policy), release, seed=1)
    assert "deck" not in {*found.seconds, *(each.attacker for each in found.not_applicable)}
    assert ATTACKER.public(release.manifest) is None

    own = f"sensitive; domain = {list(VALUES)}; method = {{ name = 'subset' }}; requirement = {{ gamma = 3 }}"
    policy = make_policy({"age": "sensitive; bins = { breaks = [50, 100] }", "disease": own}, "gamma = 2")
    release = released(people(), policy, folder=tmp_path / "s")
    assert set(deck_findings(policy, release)) == {"disease, cards", "disease, weights"}
    assert ATTACKER.public(release.manifest) is not None
