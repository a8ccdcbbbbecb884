"""Sets of values in a requirement: which values they hold, what is said of mistakes, and what counts of several."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import PolicyError
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bound import Bound, Choice, SetBound, of_each, read_set, set_keys, strictest_gamma
from sfumato.values.requirement import sets_of
from tests.conftest import make_policy

CODES = SensitiveDomain((Domain("diagnosis", ("A00", "B20", "B24.1", "B99.9", "C50", "41", "390", "459.1", None)),))
PAIR = SensitiveDomain((Domain("diagnosis", ("B20", "B24", "J10")), Domain("outcome", ("better", "worse"))))


@pytest.mark.parametrize(
    ("chosen", "codes", "told"),
    [
        ({"prefix": "B2"}, (1, 2), "diagnosis starts with 'B2'"),
        ({"between": ("A00", "B99")}, (0, 1, 2, 3), "diagnosis is between 'A00' and 'B99'"),
        ({"between": ("390", "459")}, (5, 6, 7), "diagnosis is between '390' and '459'"),  # 41 lies there, as a text
        ({"between": (390, 459.99)}, (6, 7), "diagnosis is between 390 and 459.99"),
        ({"values": ("C50", "B20")}, (1, 4), "diagnosis is 'B20' or 'C50'"),
        ({"values": ("C50", "(missing)")}, (4, 8), "diagnosis is 'C50' or '(missing)'"),
        (
            {"values": ("A00", "B20", "B24.1", "B99.9", "C50")},
            (0, 1, 2, 3, 4),
            "diagnosis is 'A00', 'B20', 'B24.1', 'B99.9' or one of 1 more",
        ),
    ],
)
def test_a_set_is_chosen_from_the_domain(chosen: dict[str, Any], codes: tuple[int, ...], told: str) -> None:
    found = sf.SetRequirement(**chosen, gamma=3).on(CODES)
    assert found.codes == codes
    assert found.told(CODES) == told
    assert found.fits(CODES)
    assert read_set(set_keys(found)) == found


@pytest.mark.parametrize(
    ("chosen", "codes", "told"),
    [
        ({"prefix": "B2", "column": "diagnosis"}, (0, 1, 2, 3), "diagnosis starts with 'B2'"),
        ({"values": ("worse",), "column": "outcome"}, (1, 3, 5), "outcome is 'worse'"),
        (
            {"values": (("B20", "worse"), ("J10", "worse"))},
            (1, 5),
            "diagnosis / outcome is 'B20 / worse' or 'J10 / worse'",
        ),
    ],
)
def test_of_several_columns_one_is_named(chosen: dict[str, Any], codes: tuple[int, ...], told: str) -> None:
    found = sf.SetRequirement(**chosen, gamma=3).on(PAIR)
    assert (found.codes, found.told(PAIR), found.fits(PAIR)) == (codes, told, True)


@pytest.mark.parametrize(
    ("chosen", "domain", "said"),
    [
        ({"prefix": "B3"}, CODES, "3 value(s) start with 'B': B20, B24.1, B99.9"),
        ({"prefix": "X"}, CODES, "Its values are for instance 390, 41, 459.1"),
        ({"between": ("D", "E")}, CODES, "C50 come before 'D' and nothing after it"),
        ({"between": (1, 2)}, CODES, "3 of its values are numbers, from 41 to 459.1"),
        ({"between": (1, 2)}, PAIR.parts[0], "None of its values is a number"),
        ({"values": ("B20", "b24.1")}, CODES, "B24.1"),
        ({"between": ("", "z")}, SensitiveDomain((Domain("d", ("a", "b")),)), "has all 2 values of 'd'"),
        ({"prefix": "B2"}, PAIR, "does not say which column it is for: diagnosis or outcome"),
        ({"prefix": "B2", "column": "diagnoses"}, PAIR, "diagnosis"),
    ],
)
def test_what_matches_nothing_or_all_is_refused_with_what_is_near(
    chosen: dict[str, Any], domain: SensitiveDomain | Domain, said: str
) -> None:
    domain = SensitiveDomain((domain,)) if isinstance(domain, Domain) else domain
    with pytest.raises(PolicyError) as problem:
        sf.SetRequirement(**chosen, gamma=3).on(domain)
    assert said in f"{problem.value.message} {problem.value.hint}"
    assert problem.value.hint


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"prefix": "B", "values": ("a",), "gamma": 3}, "named by values and prefix"),
        ({"gamma": 3}, "named by nothing"),
        ({"between": ("b", "a"), "gamma": 3}, "ends before it begins"),
        ({"between": (-math.inf, 2), "gamma": 3}, "an end that is no number"),
        ({"between": (1, math.nan), "gamma": 3}, "an end that is no number"),
        ({"between": ("b", 3), "gamma": 3}, "a text and a number"),
        ({"prefix": "B"}, "states no whole bound"),
        ({"prefix": "B", "rho1": 0.1}, "states no whole bound"),
        ({"prefix": "B", "gamma": 3, "epsilon": 1}, "states gamma and epsilon"),
        ({"prefix": "B", "gamma": 1}, "of the set by prefix 'B': gamma must be above 1"),
    ],
)
def test_an_entry_names_one_set_and_one_bound(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as problem:
        sf.SetRequirement(**entry)
    assert said in problem.value.message


def test_the_strictest_of_several_counts_and_a_set_of_one_is_its_value() -> None:
    requirement = sf.FineGrainPrivacy(
        (
            sf.ValueRequirement("C50", gamma=5),
            sf.ValueRequirement("C50", "1/10", "1/4"),
            sf.ValueRequirement("A00", epsilon=1),
            sf.SetRequirement(prefix="B2", gamma=4),
            sf.SetRequirement(values=("B20", "B24.1"), gamma=2),
            sf.SetRequirement(prefix="B2", gamma=3),
            sf.SetRequirement(prefix="C", gamma="5/2"),
        ),
        sf.Amplification(9),
    )
    bounds = requirement.bounds(CODES, [1] * CODES.size)
    assert [bounds[code].gamma for code in (1, 4, 5)] == [9, Fraction(5, 2), 9]
    assert float(bounds[0].gamma or 0) == pytest.approx(2.718281828)
    (only,) = sets_of(requirement, CODES)
    assert (only.codes, only.bound.gamma) == ((1, 2), 2)
    assert [bound.gamma for bound in of_each(bounds, (only,))][:3] == [bounds[0].gamma, 2, 2]
    assert strictest_gamma(bounds, (only,)) == 2
    assert sets_of(sf.Amplification(3), CODES) == ()


def test_sets_ask_nothing_of_their_values() -> None:
    """Without a default, and without a word on the others, the members are not covered: the error says so."""
    entries = (sf.SetRequirement(prefix="B2", gamma=3),)
    with pytest.raises(PolicyError, match="says nothing of 9 value") as problem:
        sf.FineGrainPrivacy(entries).bounds(CODES, [1] * 9)
    assert "not which one" in problem.value.hint
    assert set(sf.FineGrainPrivacy(entries, None, True).bounds(CODES, [1] * 9)) == {Bound(None)}


@pytest.mark.parametrize(
    "wrong",
    [
        SetBound((0, 1), Bound(Fraction(3)), Choice(prefix="B2")),
        SetBound((2, 1), Bound(Fraction(3))),
        SetBound((), Bound(Fraction(3))),
        SetBound(tuple(range(9)), Bound(Fraction(3))),
        SetBound((1, 9), Bound(Fraction(3))),
        SetBound((0, 1), Bound(Fraction(3)), Choice(column="other")),
    ],
)
def test_a_set_that_is_not_what_it_says_does_not_fit(wrong: SetBound) -> None:
    assert not wrong.fits(CODES)


ROLES = {"age": "other", "diagnosis": "sensitive"}
DEFAULTS = {"rho1 = 0.2\nrho2 = 0.5": sf.RhoPrivacy, "gamma = 4": sf.Amplification, "epsilon = 1": sf.LocalPrivacy}
ENTRIES = """
values = [
    { value = "a", rho1 = 0.1, rho2 = 0.2 }, { value = ["a", "b"], gamma = 3 }, { values = ["a", "b"], epsilon = 1 },
    { prefix = "B2", gamma = "7/2", given = "sex" }, { between = ["A00", "B99"], gamma = 2 },
    { between = [1, 2.5], column = "diagnosis", rho1 = "1/9", rho2 = "1/3" },
]"""


@pytest.mark.parametrize("default", DEFAULTS)
def test_a_policy_states_each_kind_beside_any_default(default: str) -> None:
    found = make_policy(ROLES, default + ENTRIES, "fine-grain").requirement
    assert isinstance(found, sf.FineGrainPrivacy)
    assert isinstance(found.default, DEFAULTS[default])
    assert found.values == (
        sf.ValueRequirement("a", 0.1, 0.2),
        sf.ValueRequirement(("a", "b"), gamma=3),
        sf.SetRequirement(("a", "b"), epsilon=1),
        sf.SetRequirement(prefix="B2", gamma="7/2", given="sex"),
        sf.SetRequirement(between=("A00", "B99"), gamma=2),
        sf.SetRequirement(between=(1, 2.5), column="diagnosis", rho1="1/9", rho2="1/3"),
    )


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ('gamma = 3\nvalues = [{ value = "a", prefix = "b", gamma = 2 }]', "this names value and prefix"),
        ("gamma = 3\nvalues = [{ gamma = 2 }]", "this names none"),
        ('gamma = 3\nvalues = [{ prefix = "", gamma = 2 }]', "this names none"),
        ('gamma = 3\nvalues = [{ prefix = "b" }]', "state one bound of an entry"),
        ('gamma = 3\nvalues = [{ prefix = "b", gamma = 2, epsilon = 1 }]', "state one bound of an entry"),
        ('gamma = 3\nvalues = [{ prefix = "b", rho2 = 0.5 }]', "add rho1"),
        (
            'gamma = 3\nvalues = [{ value = "b", column = "c", gamma = 2 }]',
            "column goes with values, prefix or between",
        ),
        ('gamma = 3\nvalues = [{ between = ["a"], gamma = 2 }]', "between takes two texts"),
        ('gamma = 3\nvalues = [{ between = ["a", 2], gamma = 2 }]', "between takes two texts"),
        ('gamma = 3\nothers = "unprotected"\nvalues = [{ prefix = "b", gamma = 2 }]', "without a bound for all others"),
        ('gamma = 3\nepsilon = 1\nvalues = [{ prefix = "b", gamma = 2 }]', "state one requirement"),
        ('tolerance = 3\nrho1 = "observed"\nvalues = [{ prefix = "b", gamma = 2 }]', "state one requirement"),
        ('gamma = 3\nrho1 = 0.1\nrho2 = 0.2\nvalues = [{ prefix = "b", gamma = 2 }]', "state one requirement"),
    ],
)
def test_a_policy_that_states_two_things_is_refused(requirement: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said.replace("(", r"\(")):
        make_policy(ROLES, requirement, "fine-grain")


def test_an_empty_text_is_a_value_that_an_entry_may_name() -> None:
    found = make_policy(ROLES, 'gamma = 3\nvalues = [{ value = "", gamma = 2 }]', "fine-grain").requirement
    assert found == sf.FineGrainPrivacy((sf.ValueRequirement("", gamma=2),), sf.Amplification(3))
