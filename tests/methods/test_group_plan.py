"""Plans of Anatomy, suppression and robust Anatomy: figures, refusals, words, and the file that is signed off."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible, PlanMismatch, PolicyError, TableError
from sfumato.methods import Method, load_plan, named, plan
from sfumato.methods.anatomy import Anatomy
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.plan import Plan
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.method import RobustAnatomy
from sfumato.methods.robustness.rehearsal import Cells
from sfumato.methods.suppression.method import Suppression
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import profile, scan
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Diversity, LocalPrivacy, Robustness
from sfumato.values.row_order import OrderTest
from sfumato.values.steps import WITHHELD
from tests.conftest import make_policy

SK = {"flu": 10, "cold": 4, "HIV": 2, "gout": 1, "mumps": 1}  # SK Example 1
KEY = SecretKey.from_seed(1)


@cache
def order() -> OrderTest:
    """What counting says of the order of rows: no matter here, and slow to test."""
    return profile(scan(pa.table({"disease": ["a", "b"]}), make_policy({"disease": "sensitive"}))).order


def counted(counts: dict[str, int], name: str = "disease") -> Profile:
    domain = SensitiveDomain((Domain(name, tuple(counts)),))
    cells, numbers = np.arange(len(counts), dtype=np.int32), np.array(list(counts.values()))
    return Profile(domain, cells[numbers > 0, None], numbers[numbers > 0], order())


def planned(counts: dict[str, int], method: str = "anatomy", l: int = 3, **more: Any) -> Plan:  # noqa: E741
    made = plan(counted(counts), named(method)(**more), Diversity(l), key=KEY)
    assert isinstance(made.figures, BucketFigures)
    return made


# --- Anatomy ----------------------------------------------------------------------------------------------------------


def test_anatomy() -> None:
    made = planned({"flu": 4, "cold": 4, "HIV": 3, "gout": 2})
    assert (made.figures.groups, made.rows, made.figures.total_withheld) == (4, 13, 0)
    assert made.figures.withheld.tolist() == [0, 0, 0, 0]
    assert made.claim == BucketClaim("anatomy", "proved", ("disease",), Fraction(1, 3))
    assert "dealt at random to 4 groups of 3 or 4 records, none with a value twice" in made.explain()


def test_anatomy_as_published_promises_the_same() -> None:
    ours, theirs = (planned({"a": 2, "b": 2}, l=2, assurance=a) for a in ("proved", "as-published"))
    assert theirs.guarantee == ours.guarantee
    assert "the two assurances agree" in theirs.notes[0]


def test_a_value_that_is_too_frequent_is_named() -> None:
    with pytest.raises(Infeasible) as caught:
        planned({"flu": 9, "cold": 6, "HIV": 5})
    assert caught.value.message == "'flu' is 45.0% of 'disease', above 1/3 = 33.3% (l = 3)."
    assert caught.value.hint.startswith('Ask for l <= 2, or choose the method "suppression", which withholds')


def test_where_no_l_can_be_had_only_suppression_helps() -> None:
    with pytest.raises(Infeasible) as caught:
        planned({"flu": 12, "cold": 6, "HIV": 2})
    assert caught.value.hint.startswith('Choose the method "suppression"')


def test_the_largest_l_that_is_named_can_be_had() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        counts = {str(i): int(n) for i, n in enumerate(rng.integers(1, 30, 8))}
        largest = sum(counts.values()) // max(counts.values())
        assert planned(counts, l=max(2, largest)).figures.groups if largest > 1 else True
        with pytest.raises(Infeasible):
            planned(counts, l=largest + 1)


@pytest.mark.parametrize("method", ["anatomy", "suppression"])
def test_fewer_values_than_l(method: str) -> None:
    with pytest.raises(Infeasible, match="Only 2 values of 'disease' occur, fewer than l = 3"):
        planned({"flu": 5, "cold": 5}, method)


def test_one_value_only() -> None:
    with pytest.raises(TableError, match="One value of 'disease' only occurs"):
        planned({"flu": 4, "cold": 0})


@pytest.mark.parametrize("method", [Anatomy(), Suppression(), RobustAnatomy(attribute_sets=[["sex"]])])
def test_other_requirements_are_refused(method: Method) -> None:
    with pytest.raises(PolicyError, match=f"The method {method.name} takes the requirement [lr], and no other"):
        plan(counted(SK), method, LocalPrivacy(1))


# --- suppression ------------------------------------------------------------------------------------------------------


def test_suppression_of_sk_example_1() -> None:
    made = planned(SK, "suppression")
    figures = made.figures.suppression
    assert figures is not None
    assert sorted(made.figures.published.tolist()) == [1, 1, 2, 2, 3]
    assert (int(made.figures.withheld.sum()), made.figures.groups, figures.lower_bound) == (9, 3, 6)
    assert figures.violating == ("flu",)
    assert figures.costs == {
        "rotation": 9, "spread": 9, "safe-d": 10, "r-suppression": 71 / 9, "unsafe-d": 6, "minimal": 6,
    }  # fmt: skip
    assert (figures.dominant_bound, figures.violating_bound) == ("1/3", "1/3")
    assert [(b.published, b.values, b.dominant) for b in figures.beliefs] == [(3, 1, 1 / 3), (2, 2, 1 / 3)]


def test_what_is_left_for_a_missing_person() -> None:
    made = planned({"a": 11, "b": 9, "c": 2, **dict.fromkeys("defghij", 1)}, "suppression")
    figures = made.figures.suppression
    assert figures is not None
    assert [(b.published, b.missing) for b in figures.beliefs] == [(5, 14 / 39), (2, 25 / 78)]
    assert "The variant safe-d is the strict choice" in " ".join(made.notes)
    strict = planned({"a": 11, "b": 9, "c": 2, **dict.fromkeys("defghij", 1)}, "suppression", variant="safe-d")
    assert strict.figures.suppression is not None
    assert [b.missing for b in strict.figures.suppression.beliefs] == [1 / 3]
    assert "strict choice" not in " ".join(strict.notes)


def test_the_largest_share_of_one_value_among_the_withheld_is_shown() -> None:
    made = planned(SK, "suppression", variant="safe-d")
    assert made.figures.withheld.tolist() == [8, 2, 0, 0, 0]
    told = "One value has 80.0% of the withheld records: someone who knows the value of one missing person"
    assert told in made.explain()
    assert "of the withheld records" not in planned({"flu": 3, "cold": 3, "HIV": 3}, "suppression").explain()


def test_two_violating_values() -> None:
    made = planned({"a": 4, "b": 4, "c": 3, "d": 2, "e": 2}, "suppression", l=4)
    assert made.figures.suppression is not None
    assert (made.figures.suppression.dominant_bound, made.figures.suppression.violating_bound) == ("1/4", "1/2")
    assert (made.figures.suppression.costs["rotation"], made.figures.suppression.costs["spread"]) == (5, 3)


def test_an_eligible_table_is_published_as_it_is() -> None:
    made = planned({"flu": 3, "cold": 3, "HIV": 3}, "suppression")
    assert made.figures.total_withheld == 0
    assert made.figures.suppression is not None
    assert made.figures.suppression.violating == ()
    assert [(b.published, b.values, b.dominant) for b in made.figures.suppression.beliefs] == [(3, 3, 1 / 3)]
    assert "this is plain Anatomy" in made.notes[0]
    assert "The most frequent values ('flu', 'cold', 'HIV') share 33.33% each." in made.explain()


def test_t2_the_most_frequent_value_of_an_eligible_table_is_public() -> None:
    """4, 3, 3 and l = 2: nothing is withheld, the belief is 1, and there is no bound on it."""
    made = planned({"flu": 4, "cold": 3, "HIV": 3}, "suppression", l=2)
    figures = made.figures.suppression
    assert figures is not None
    assert (figures.dominant_bound, figures.violating_bound) == (None, "0")
    assert [(b.published, b.dominant, b.missing) for b in figures.beliefs] == [(4, 1, 0), (3, 0, 0)]
    assert "which value is the most frequent is public" in made.guarantee.sentence
    assert (
        "say always = true. With the variant rotation it is believed by at most 1/2, and 1 record is" in made.notes[1]
    )
    text = made.explain()
    assert (
        "nothing is withheld. All counts are exact, and which value is the most frequent is public: 'flu' has" in text
    )
    assert "missing" not in text


@pytest.mark.parametrize("variant", ["rotation", "spread", "safe-d"])
def test_t2_always_hides_the_most_frequent_value_of_every_table(variant: str) -> None:
    made = planned({"flu": 4, "cold": 3, "HIV": 3}, "suppression", l=2, variant=variant, always=True)
    figures = made.figures.suppression
    assert figures is not None
    assert made.figures.published.tolist() == [3, 3, 3]
    assert (made.claim.always, figures.dominant_bound, figures.violating_bound) == (True, "1/2", "0")
    assert figures.costs == {"rotation": 1, "spread": 1, "safe-d": 1}
    assert max(belief.dominant for belief in figures.beliefs) == 1 / 3
    text = made.explain()
    assert (
        "no value has more than 1/2 of the table; always = true hides all the same which is the most frequent" in text
    )
    assert "lower bound" not in text
    tied = planned({"flu": 3, "cold": 3, "HIV": 3}, "suppression", variant=variant, always=True)
    assert (tied.figures.total_withheld, tied.figures.suppression.dominant_bound) == (0, "1/3")
    assert "nothing has to be withheld to hide which is which" in tied.notes[0]
    assert "Suppression: no value has more than 1/3 of the table; always = true" in tied.explain()


def test_t2_always_does_not_go_with_r_suppression() -> None:
    asked: dict[str, Any] = {"variant": "r-suppression", "assurance": "as-published", "always": True}
    with pytest.raises(PolicyError, match="always does not go with r-suppression"):
        planned(SK, "suppression", **asked)


def test_draws_come_from_the_key() -> None:
    places = {seed: tuple(_drawn(SecretKey.from_seed(seed)).figures.withheld.tolist()) for seed in range(30)}
    assert places == {seed: tuple(_drawn(SecretKey.from_seed(seed)).figures.withheld.tolist()) for seed in range(30)}
    assert set(places.values()) == {(7, 2, 0, 0, 0), (8, 1, 0, 0, 0)}  # flu first; flu second or third
    assert _drawn(SecretKey.from_seed(1)).seeded
    fresh = plan(counted(SK), Suppression(), Diversity(3))
    assert isinstance(fresh.figures, BucketFigures)
    assert not fresh.seeded


def _drawn(key: SecretKey) -> Plan:
    made = plan(counted(SK), Suppression(), Diversity(3), key=key)
    assert isinstance(made.figures, BucketFigures)
    return made


@pytest.mark.parametrize("variant", ["minimal", "unsafe-d"])
def test_variants_for_comparisons_refuse_to_publish(variant: str) -> None:
    with pytest.raises(PolicyError, match="for comparisons only"):
        planned(SK, "suppression", variant=variant)


def test_a_variant_that_there_is_not() -> None:
    with pytest.raises(PolicyError) as caught:
        planned(SK, "suppression", variant="rotate")
    assert caught.value.message.startswith("Suppression: variant: Input should be 'rotation', 'spread', 'safe-d'")
    assert "minimal" not in caught.value.message


def test_a_variant_and_its_assurance() -> None:
    with pytest.raises(PolicyError, match='does not go with assurance = "proved"'):
        planned(SK, "suppression", variant="r-suppression")
    made = planned(SK, "suppression", variant="r-suppression", assurance="as-published")
    assert made.figures.suppression is not None
    assert made.figures.suppression.dominant_bound is None
    assert "no bound is proved" in made.explain()


def test_r_suppression_can_draw_to_withhold_everything() -> None:
    """m = l, and the interval [0, F_l] is picked with F = 0."""
    asked = Suppression(variant="r-suppression", assurance="as-published")
    seen = set()
    for seed in range(60):
        key = SecretKey.from_seed(seed)
        try:
            made = plan(counted({"a": 5, "b": 2, "c": 1}), asked, Diversity(3), key=key)
        except Infeasible as problem:
            seen.add(problem.message[:61])
        else:
            assert isinstance(made.figures, BucketFigures)
            seen.add(f"{made.figures.groups} group")
    assert seen == {"1 group", "R-suppression as published drew to withhold the whole table, "}


def test_100_000_values_are_planned() -> None:
    counts = {f"v{i}": 10**9 // i for i in range(2, 100_001)}
    made = planned({"v1": sum(counts.values()), **counts}, "suppression")
    assert made.figures.suppression is not None
    assert made.figures.published.max() * 3 <= made.figures.published.sum()
    assert made.figures.withheld.sum() >= made.figures.suppression.lower_bound > 0


# --- robust Anatomy ---------------------------------------------------------------------------------------------------

CLINIC = {
    ("F", "old"): {"flu": 6, "cold": 3, "HIV": 1},
    ("F", "young"): {"flu": 2, "cold": 2, "HIV": 2},
    ("M", "old"): {"flu": 2, "cold": 4, "HIV": 4},
    ("M", "young"): {"flu": 1, "cold": 5, "HIV": 4},
}
ROLES = {"sex": "quasi_identifier", "age": "quasi_identifier", "disease": "sensitive"}
SETS = 'attribute_sets = [["sex"], ["age", "sex"]]\n'


def clinic() -> pa.Table:
    rows = [(*cell, value) for cell, of in CLINIC.items() for value, n in of.items() for _ in range(n)]
    return pa.table(dict(zip(ROLES, map(list, zip(*rows, strict=True)), strict=True)))


def robust(options: str = SETS, r: int = 2, table: pa.Table | None = None) -> Plan:
    asked = make_policy(ROLES, f"r = {r}", "robust-anatomy", options=options)
    made = plan(profile(scan(clinic() if table is None else table, asked)), asked.method, asked.requirement)
    assert isinstance(made.figures, BucketFigures)
    return made


def test_cells_and_signatures() -> None:
    asked = make_policy(ROLES, "r = 2", "robust-anatomy", options=SETS)
    found = Cells.of(profile(scan(clinic(), asked)), asked.method.attribute_sets)
    assert found.labels == (("F", "old"), ("F", "young"), ("M", "old"), ("M", "young"))
    assert found.counts[0].tolist() == [1, 3, 6]  # HIV, cold, flu: by label
    sex, both = found.sets
    assert (sex.labels, sex.of_cell.tolist()) == ((("F",), ("M",)), [0, 0, 1, 1])
    assert (both.labels[1], both.of_cell.tolist()) == (("old", "M"), [0, 2, 1, 3])  # by age, then sex
    assert found.prior(sex).weights.tolist() == [[3, 5, 8], [8, 9, 3]]


def test_without_a_prior_the_formula_tells_what_is_withheld() -> None:
    made = robust()
    figures = made.figures.robustness
    assert figures is not None
    assert (figures.leftover, figures.mixed, int(made.figures.withheld.sum())) == (2, 0, 2)
    cell = figures.withheld[0]
    assert (cell.cell, cell.records, cell.withheld, cell.values) == (("F", "old"), 10, 2, ("flu",))
    assert cell.largest_r == 1
    assert (figures.worst, figures.breach) == (0.5, 0)
    assert figures.checks == {"prior-free bound": made.figures.groups}
    assert figures.plain_breach > 0
    assert made.figures.priors == ()
    text = made.explain()
    assert "(F, old): 2 of 10 withheld, with 'flu'; some at every r" in text
    assert "What would help: a lower r; a coarser column" in text


def test_with_the_table_s_shares_guests_are_seated() -> None:
    made = robust(SETS + 'prior = "table"')
    figures = made.figures.robustness
    assert figures is not None
    assert figures.mixed + int(made.figures.withheld.sum()) == figures.leftover == 2
    assert figures.checks["exact posterior"] == figures.examined == made.figures.groups
    assert figures.worst <= 0.5 + 1e-12
    assert [prior.weights.shape for prior in made.figures.priors] == [(2, 3), (4, 3)]
    assert (made.figures.priors[0].weights.sum(axis=1) == made.figures.priors[0].totals).all()


def test_numbers_without_a_prior_are_those_of_every_deal() -> None:
    """Which records are withheld is drawn; how many of each cell and value, and how many groups, is not."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        cells, values = rng.integers(0, 4, 80), rng.integers(0, 6, 80) * rng.integers(0, 2, 80)
        cells = np.unique(cells, return_inverse=True)[1]
        deals = [group_records(cells, values, [cells], rng.permutation(80), 2) for _ in range(5)]
        lost = {tuple(np.bincount((6 * cells + values)[d == WITHHELD], minlength=24).tolist()) for d in deals}
        assert len(lost) == len({d.max() for d in deals}) == 1


def test_numbers_of_a_rehearsal_are_not_told_as_facts() -> None:
    exact, rehearsed = robust(), robust(SETS + 'prior = "table"')
    assert (exact.figures.exact, rehearsed.figures.exact, planned(SK, "suppression").figures.exact) == (
        True,
        False,
        True,
    )
    assert "rehearsal" not in exact.explain().lower()
    assert "Answers refer to the 34 published records" in exact.explain()
    text = rehearsed.explain()
    assert "In a rehearsal all are dealt" in text or "are withheld, the others are dealt" in text
    assert "; the release has about as many. Two tables" in text
    assert "withheld and published: in the rehearsal" in text
    assert "published record of the rehearsal, under the table's own shares" in text
    table = clinic()
    scarce = pa.concat_tables([table, table.filter(pa.compute.equal(table["sex"], "F")).slice(0, 5)])
    assert "Answers refer to the published records, about 3" in robust(SETS + 'prior = "table"', table=scarce).explain()


def test_as_published_merges_and_tells_its_breaches() -> None:
    made = robust(SETS + 'prior = "table"\nassurance = "as-published"')
    assert made.figures.robustness is not None
    assert made.figures.robustness.checks["published Delta, PI Eq. (4)"] == made.figures.groups
    assert "merged bottom-up to" in made.explain()
    assert made.guarantee.sentence.startswith("No belief is bounded by 50%.")


def write_prior(path: Path, shares: dict[str, dict[str, str]]) -> None:
    lines = [f"{s},{value},{p}" for s, of in shares.items() for value, p in of.items()]
    path.write_text("\n".join(["sex,value,probability", *lines]) + "\n")


def from_file(path: Path, r: int = 2) -> Plan:
    asked = make_policy(ROLES, f"r = {r}", "robust-anatomy", options='attribute_sets = [["sex"]]')
    made = plan(profile(scan(clinic(), asked)), with_prior(asked, path), asked.requirement)
    assert isinstance(made.figures, BucketFigures)
    return made


def with_prior(asked: Policy, path: Path) -> RobustAnatomy:
    return RobustAnatomy(attribute_sets=asked.method.known_sets, prior=[path])


def test_a_prior_from_a_file(tmp_path: Path) -> None:
    shares = {"F": {"flu": "0.5", "cold": "0.3", "HIV": "0.2"}, "M": {"flu": "1/6", "cold": "1/2", "HIV": "1/3"}}
    write_prior(tmp_path / "p.csv", shares)
    made = from_file(tmp_path / "p.csv")
    assert made.claim.prior == "file"
    known = made.figures.priors[0]
    assert [Fraction(int(w), int(known.totals[1])) for w in known.weights[1]] == [
        Fraction(1, 3), Fraction(1, 2), Fraction(1, 6),
    ]  # fmt: skip


def test_a_prior_that_contradicts_the_table(tmp_path: Path) -> None:
    write_prior(tmp_path / "p.csv", {"F": {"flu": "1"}, "M": {"flu": "1/2", "cold": "1/4", "HIV": "1/4"}})
    with pytest.raises(PolicyError) as caught:
        from_file(tmp_path / "p.csv")
    assert "contradicts the table: it gives 'HIV' probability 0 for (F), but 3 record(s) have it" in str(caught.value)


def test_more_of_a_value_than_the_prior_has_room_for() -> None:
    """Only women have it: 5 of 8 is above one half, though 5 of 16 is not."""
    rows = [("F", "old", v) for v in ["x"] * 5 + ["y", "z", "w"]] + [("M", "old", v) for v in "yyzzwwuu"]
    table = pa.table(dict(zip(ROLES, map(list, zip(*rows, strict=True)), strict=True)))
    with pytest.raises(Infeasible) as caught:
        robust('attribute_sets = [["sex"]]\nprior = "table"', table=table)
    assert caught.value.message == (
        "'x' is possible for 8 records only, given sex, and 5 of them have it: more than 1/2."
    )
    assert 'prior = "none", which withholds such records' in caught.value.hint
    assert int(robust('attribute_sets = [["sex"]]', table=table).figures.withheld.sum()) == 2


def test_more_than_one_rth_of_a_value() -> None:
    with pytest.raises(Infeasible) as caught:
        robust(r=3)
    assert "'cold' is 38.9% of 'disease', above 1/3 = 33.3% (r = 3)." in caught.value.message
    assert "Ask for r <= 2" in caught.value.hint


def test_a_table_of_which_no_group_can_be_made() -> None:
    table = pa.table({"sex": ["F", "M"] * 4, "age": ["old"] * 8, "disease": ["flu", "cold"] * 4})
    with pytest.raises(Infeasible, match="No group can be made: in every cell by sex, age one value"):
        robust(table=table)


def test_robust_anatomy_needs_counts_of_its_columns() -> None:
    with pytest.raises(PolicyError, match="needs what the adversary knows of"):
        plan(counted(SK), RobustAnatomy(attribute_sets=[["sex"]]), Robustness(2))
    asked = make_policy(ROLES, "r = 2", "robust-anatomy", options='attribute_sets = [["sex"]]')
    with pytest.raises(PolicyError, match="names 'age', which the profile does not count"):
        plan(profile(scan(clinic(), asked)), RobustAnatomy(attribute_sets=[["age"]]), Robustness(2))


# --- the file ---------------------------------------------------------------------------------------------------------

PLANS = {
    "anatomy": lambda: planned({"flu": 4, "cold": 4, "HIV": 3, "gout": 2}),
    "suppression": lambda: planned(SK, "suppression"),
    "always": lambda: planned({"flu": 4, "cold": 3, "HIV": 3}, "suppression", l=2, always=True),
    "robust": robust,
    "with a prior": lambda: robust(SETS + 'prior = "table"'),
    "as published": lambda: robust(SETS + 'prior = "table"\nassurance = "as-published"'),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    made = PLANS[name]().bound_to("t", "p")
    (tmp_path / "plan.json").write_text(made.to_json(), encoding="utf-8")
    back = load_plan(tmp_path / "plan.json")
    assert isinstance(back.figures, BucketFigures)
    assert back.to_dict() == made.to_dict()
    assert back.explain() == made.explain()
    assert (back.claim, back.figures.suppression, back.figures.robustness) == (
        made.claim,
        made.figures.suppression,
        made.figures.robustness,
    )
    back.require("t", "p")
    with pytest.raises(PlanMismatch, match="The policy is not the one that was planned"):
        back.require("t", "q")


def test_a_changed_plan_is_refused(tmp_path: Path) -> None:
    raw = planned(SK, "suppression").to_dict()
    raw["withheld"] = [0] * 5
    (tmp_path / "plan.json").write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(PlanMismatch, match="is not as it was made"):
        load_plan(tmp_path / "plan.json")


def test_another_table_is_refused() -> None:
    made, asked = robust(), make_policy(ROLES, "r = 2", "robust-anatomy", options=SETS)
    with pytest.raises(PlanMismatch, match="other values, or other numbers"):
        made.figures.recheck(made, profile(scan(clinic().slice(1), asked)))
    made.figures.recheck(made, profile(scan(clinic(), asked)))


def test_public_names() -> None:
    made = sf.plan(counted(SK), sf.Suppression(), sf.Diversity(2))
    assert isinstance(made.figures, BucketFigures)
