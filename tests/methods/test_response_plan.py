"""Plans of randomized response: the policy that asks for them, what they limit, say and keep."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato.errors import Infeasible, PlanMismatch, PolicyError, TableError
from sfumato.methods import load_plan, plan
from sfumato.methods.plan import Plan
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.joint import Channel, JointTable
from sfumato.methods.response.method import RandomizedResponse
from sfumato.methods.response.request import Axes
from sfumato.methods.response.risks import Reconstruction
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.uniform import Uniform
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import profile, scan
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.profile import counts_hash
from sfumato.values.requirement import GroupLimit, LocalPrivacy, RhoPrivacy, RiskLimit
from tests.conftest import make_policy

ROLES = {"sex": "quasi_identifier", "age": "quasi_identifier; bins = { width = 10 }", "disease": "sensitive"}


def policy(method: str = "", requirement: str = "l = 3", roles: dict[str, str] | None = None, top: str = "") -> Policy:
    return make_policy(roles or ROLES, requirement, "randomized-response", top, method)


def clinic() -> pa.Table:
    """AD Table 1: 72 men and 28 women; 12 of the women have cancer."""
    cells = {"M": {"cancer": 20, "flu": 30, "gout": 22}, "F": {"cancer": 12, "flu": 8, "gout": 8}}
    rows = [(sex, disease) for sex, of_sex in cells.items() for disease, n in of_sex.items() for _ in range(n)]
    return pa.table({"sex": [sex for sex, _ in rows], "disease": [disease for _, disease in rows]})


CLINIC = {"sex": "quasi_identifier", "disease": "sensitive"}
AS_PUBLISHED = 'assurance = "as-published"'


def planned(table: Any, asked: Policy) -> Plan:
    made = plan(profile(scan(table, asked)), asked.method, asked.requirement)
    assert isinstance(made.figures, ResponseFigures)
    return made


# --- the policy -------------------------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "another requirement": ({"requirement": "epsilon = 1"}, "takes no other requirement"),
    "two limits": ({"requirement": "l = 2\nrisk_limit = 0.5"}, "this states l and risk_limit"),
    "l too small": ({"requirement": "l = 1"}, "requirement.l: must be at least 2, not 1"),
    "a limit above one": ({"requirement": "risk_limit = 1.5"}, "risk_limit must be above 0 and at most 1, not 1.5"),
    "no limit at all": ({"requirement": "risk_limit = 1"}, "nothing would be required"),
    "a limit of zero": ({"requirement": "risk_limit = 0"}, "risk_limit must be above 0 and at most 1, not 0"),
    "with rho1": ({"requirement": "l = 2\nrho1 = 0.1"}, "stand alone, without rho1"),
    "a group without limit": (
        {"requirement": 'l = 2\n[[requirement.groups]]\nwhere = { sex = "F" }'},
        "give either l or risk_limit",
    ),
    "a group of another column": (
        {"requirement": 'l = 2\n[[requirement.groups]]\nwhere = { city = "A" }\nl = 3'},
        "requirement.groups names 'city', which is neither a quasi_identifier nor sensitive",
    ),
    "an empty group": (
        {"requirement": "l = 2\n[[requirement.groups]]\nwhere = {}\nl = 3"},
        "A group needs a column and a value",
    ),
    "reconstruction is not proved": ({"method": 'risk = "reconstruction"'}, "bounds no inference"),
    "posterior is not as published": ({"method": f'risk = "link"\n{AS_PUBLISHED}'}, "risk link does not go with"),
    "noise in S alone": ({"method": 'scope = "sensitive"'}, "randomizes nothing that the risk posterior depends on"),
    "fixed and sensitive": ({"method": 'fixed = ["disease"]'}, "names 'disease', which is not a quasi_identifier"),
    "all fixed": ({"method": 'fixed = ["sex", "age"]'}, "nothing is left that could lower the risk"),
    "a key of another method": ({"method": "delta = 0.1"}, "delta does not go with randomized-response"),
    "no quasi-identifier": (
        {"roles": {"sex": "other", "disease": "sensitive"}},
        "no column is a quasi_identifier",
    ),
    "a randomized record key": ({"top": 'record_key = "age"'}, "record_key names 'age', which may be randomized"),
    "rows that are drawn": (
        {
            "roles": {**ROLES, "id": "identifier"},
            "top": 'person = { column = "id", repeated = "keep-one" }',
        },
        "known only when they are drawn",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_does_not_fit_is_an_error(case: str) -> None:
    changes, message = ERRORS[case]
    with pytest.raises(PolicyError, match=re.escape(message)):
        policy(**changes)


@pytest.mark.parametrize("key", ['scope = "both"', 'risk = "link"', 'fixed = ["sex"]', 'objective = "l2"'])
def test_other_methods_take_none_of_its_keys(key: str) -> None:
    with pytest.raises(PolicyError, match=r"does not go with uniform, only with .*randomized-response"):
        Policy.parse(f'[columns.a]\nrole = "sensitive"\n[method]\nname = "uniform"\n{key}\n[requirement]\nepsilon = 1')


def test_other_methods_take_no_limit_on_a_risk() -> None:
    with pytest.raises(
        PolicyError, match="l goes with the method randomized-response or anatomy or suppression; the method is uniform"
    ):
        Policy.parse('[columns.a]\nrole = "sensitive"\n[method]\nname = "uniform"\n[requirement]\nl = 2')
    for method in (Uniform(), SmallDomain()):
        counted = profile(scan(clinic().select(["disease"]), policy_of_disease()))
        with pytest.raises(PolicyError):
            plan(counted, method, RiskLimit("1/2"))


def policy_of_disease() -> Policy:
    return Policy.parse('[columns.disease]\nrole = "sensitive"\n[method]\nname = "uniform"\n[requirement]\nepsilon = 1')


def test_it_takes_a_limit_on_a_risk_and_a_joint_table_only() -> None:
    joint = profile(scan(clinic(), policy(roles=CLINIC)))
    for other in (LocalPrivacy(1), RhoPrivacy(0.1, 0.2)):
        with pytest.raises(PolicyError, match="takes a limit on a risk"):
            plan(joint, RandomizedResponse(), other)
    with pytest.raises(PolicyError, match='does not go with assurance = "proved"'):
        RandomizedResponse(risk="reconstruction")
    with pytest.raises(PolicyError, match="'disease' is to be fixed"):
        plan(joint, RandomizedResponse(fixed=["disease"]), RiskLimit("1/3"))
    with pytest.raises(PolicyError, match="counts quasi-identifiers, which uniform does not randomize"):
        plan(joint, Uniform(), LocalPrivacy(1))
    alone = profile(scan(clinic().select(["disease"]), policy_of_disease()))
    with pytest.raises(PolicyError, match="The profile has no quasi-identifiers"):
        plan(alone, RandomizedResponse(), RiskLimit("1/3"))
    same = clinic().select(["sex"]).append_column("disease", pa.array(["flu"] * 100))
    with pytest.raises(TableError, match="'disease' has one value only"):
        planned(same, policy(roles=CLINIC))


def test_numbers_are_exact() -> None:
    asked = policy(requirement='risk_limit = 0.1\n[[requirement.groups]]\nwhere = { sex = ["F", "M"] }\nl = 7')
    assert asked.requirement == RiskLimit(Fraction(1, 10), (GroupLimit((("sex", ("F", "M")),), Fraction(1, 7)),))


# --- counting ---------------------------------------------------------------------------------------------------------


def test_the_joint_table_is_counted() -> None:
    counted = profile(scan(clinic(), policy(roles=CLINIC)))
    assert counted.quasi_identifiers == ("sex",)
    assert (counted.quasi_domain.names, counted.sensitive_domain.names) == (("sex",), ("disease",))
    assert counted.counts.reshape(2, 3).tolist() == [[12, 8, 8], [20, 30, 22]]


# --- plans ------------------------------------------------------------------------------------------------------------


def test_the_worked_example() -> None:
    """AD Table 1 under a limit of 1/3 on the reconstruction of who the quasi-identifiers belong to."""
    made = planned(clinic(), policy(f'scope = "quasi-identifiers"\n{AS_PUBLISHED}', roles=CLINIC))
    sex, disease = made.figures.attributes
    assert (round(sex.diagonal, 9), disease.diagonal, disease.epsilon) == (0.785, 1.0, None)  # .7879 at the best
    assert sex.retention == pytest.approx(0.57, abs=1e-15)
    assert [mechanism.domain.names for mechanism in made.mechanisms] == [("sex",)]
    assert 0.33 < made.figures.risks["reconstruction"] < 1 / 3
    assert made.figures.best_l2 == pytest.approx((2.0080 - 1) / 100, abs=1e-6)
    assert made.figures.expected_l2 == pytest.approx((made.figures.kappa - 1) / 100)
    assert made.figures.guesser_mean == 0.42
    assert made.figures.guesser_maximum == pytest.approx(12 / 28)
    assert [cell.values for cell in made.figures.binding] == [("M", "flu")]
    assert [point.l for point in made.figures.trade_off] == list(range(2, 8))


def dense_posterior(table: pa.Table, made: Plan) -> Any:
    """h(b, u) from the definition, with the dense matrix; rows b, columns u."""
    domain = profile(scan(table, policy(roles=CLINIC))).domain
    counts = np.zeros(domain.sizes)
    for row in table.to_pylist():
        counts[tuple(part.index[row[part.name]] for part in domain.parts)] += 1
    released = ProductMatrix(tuple(m.matrix for m in made.mechanisms)).apply(counts.T).T
    return released / released.sum(axis=1, keepdims=True)


def test_the_posterior_is_limited_for_all_and_for_groups() -> None:
    """With a stricter limit for a value's records, every belief in the value keeps it."""
    loose = planned(clinic(), policy(requirement="risk_limit = 0.42", roles=CLINIC))
    assert dense_posterior(clinic(), loose).max() <= 0.42
    group = 'risk_limit = 0.9\n[[requirement.groups]]\nwhere = { disease = "cancer" }\nrisk_limit = 0.36'
    strict = planned(clinic(), policy(requirement=group, roles=CLINIC))
    belief = dense_posterior(clinic(), strict)
    assert belief[:, 0].max() <= 0.36 < belief[:, 1].max()
    assert "disease cancer: 36%; all others: 90%" in strict.guarantee.sentence


def wards() -> pa.Table:
    """60 of 100 men have flu, 30 of 100 women; it depends on the ward."""
    cells = {("M", "a"): (60, 20), ("M", "b"): (0, 20), ("F", "a"): (20, 30), ("F", "b"): (10, 40)}
    rows = [(*key, disease) for key, (flu, gout) in cells.items() for disease in ["flu"] * flu + ["gout"] * gout]
    return pa.table(dict(zip(("sex", "ward", "disease"), map(list, zip(*rows, strict=True)), strict=True)))


WARDS = {"sex": "quasi_identifier", "ward": "quasi_identifier", "disease": "sensitive"}


def test_a_group_of_a_fixed_column_has_its_limit_to_itself(tmp_path: Path) -> None:
    """The policy page's example has this form: women's limit holds no row that is published as a man's."""
    group = 'risk_limit = 0.9\n[[requirement.groups]]\nwhere = { sex = "F", disease = "flu" }\nrisk_limit = 0.35'
    table = scan(wards(), policy('fixed = ["sex"]', group, WARDS))
    made = plan(profile(table), table.policy.method, table.policy.requirement)
    assert isinstance(made.figures, ResponseFigures)
    assert made.figures.randomized == ("ward",)
    assert {cell.values[0] for cell in made.figures.binding} == {"F"}
    assert made.figures.risks["posterior"] > 0.6
    assert "strictest limit of the records with x that can be published with it" in made.guarantee.sentence
    release = sf.publish(table, made, tmp_path / "r")
    (found,) = [f for f in sf.audit(table, release).findings if f.attacker == "posterior"]
    assert (found.verdict, found.promised) == ("within the bound", 0.9)  # the largest belief is in a man's row
    assert found.nearest is not None
    assert found.nearest.risk <= found.nearest.bound == 0.35


def test_each_cell_has_the_strictest_limit_of_its_groups() -> None:
    """Two sensitive columns are one axis; against a loop over all records."""
    rows = [(s, a, d, o) for s in "FM" for a in (5, 15, 25) for d in ("flu", "gout") for o in ("ill", "well")]
    table = pa.table(dict(zip(("sex", "age", "disease", "outcome"), map(list, zip(*rows, strict=True)), strict=True)))
    groups = [
        ({"sex": ["F"]}, "1/5"),
        ({"disease": ["gout"], "age": ["[0, 10)", "[10, 20)"]}, "1/7"),
        ({"outcome": ["ill"], "sex": ["M"]}, "9/10"),
    ]
    limit = RiskLimit(
        "1/2", tuple(GroupLimit(tuple((k, tuple(v)) for k, v in where.items()), n) for where, n in groups)
    )
    counted = profile(scan(table, policy(roles=ROLES | {"outcome": "sensitive"})))
    for shared in ((), ("sex",), ("sex", "age")):  # all combinations occur, in the domain's order if none is shared
        axes = Axes.of(counted, shared)
        order = np.lexsort(axes.codes(axes.table.groups).T[::-1])
        assert (axes.limits(limit)[order] == Axes.of(counted).limits(limit)).all()
    found = Axes.of(counted).limits(limit)
    for code, values in enumerate(counted.domain.values):
        record = dict(zip(counted.domain.names, values, strict=True))
        own = [Fraction(n) for where, n in groups if all(record[name] in named for name, named in where.items())]
        assert found.ravel()[code] == float(min(own, default=Fraction(1, 2))), record


def test_groups_keep_their_own_limits() -> None:
    """A limit for women alone, on the paper's risk, evaluated on the integers that are sampled."""
    group = '[[requirement.groups]]\nwhere = { sex = "F" }\nrisk_limit = 0.15'
    asked = policy(AS_PUBLISHED, f"l = 3\n{group}", CLINIC)
    made = planned(clinic(), asked)
    channels = tuple(Channel.from_noise(m.matrix.size, int(m.matrix.noise[0])) for m in made.mechanisms)
    risk = Reconstruction(Axes.of(profile(scan(clinic(), asked))).table, channels).values.reshape(2, 3)
    assert risk[0].max() <= 0.15 < risk[1].max() <= 1 / 3
    assert {cell.values[0] for cell in made.figures.binding} == {"F"}
    assert made.figures.binding[0].limit == pytest.approx(0.15)


def test_the_curve_varies_the_general_limit_and_groups_keep_theirs() -> None:
    group = '[[requirement.groups]]\nwhere = { sex = "F" }\nrisk_limit = 0.15'
    made, all_alike = (planned(clinic(), policy(AS_PUBLISHED, f"l = 3\n{more}", CLINIC)) for more in (group, ""))
    stated = next(point for point in made.figures.trade_off if point.l == 3)
    assert stated.kappa == pytest.approx(made.figures.kappa, rel=1e-9)
    for own, other in zip(made.figures.trade_off, all_alike.figures.trade_off, strict=True):
        assert own.kappa is not None
        assert other.kappa is not None
        assert own.kappa >= other.kappa * (1 - 1e-9)  # one limit more
    women_alone = made.figures.trade_off[0].kappa
    assert women_alone is not None
    assert women_alone > 1  # 1/2 alone would ask for nothing
    assert all_alike.figures.trade_off[0].kappa == 1
    assert "What another limit 1/l for all other records, while groups keep theirs, would cost" in made.explain()


def test_noise_in_the_sensitive_column_does_not_lower_the_posterior() -> None:
    made = planned(clinic(), policy(requirement="risk_limit = 0.42", roles=CLINIC))
    assert made.figures.attributes[1].diagonal == 1
    assert made.guarantee.limits[0] == (
        "disease is published untouched: every row shows the true one, and its local epsilon is infinite. Only the "
        "quasi-identifiers beside it are randomized."
    )
    assert any("does not lower the risk posterior" in note for note in made.notes)
    assert any("believes in a value by up to 1.0000" in note for note in made.notes)


def test_it_says_what_cannot_be_had() -> None:
    """Of 32% cancer nobody can make believers of less; the groups are named."""
    with pytest.raises(Infeasible, match=r"0.25.*Whatever the sex, they are 'cancer', 'flu'") as error:
        planned(clinic(), policy(requirement="l = 4", roles=CLINIC))
    useful = "(from a limit of 0.396 on, its counts beat holding all combinations to be alike)."
    # of three values one has a third, whatever is suppressed
    assert error.value.hint == f"Ask for risk_limit = 0.381 or more {useful}"
    with pytest.raises(Infeasible, match=r"at the least, above its limit of 0.35.*Whatever the sex, .*'flu'") as error:
        planned(clinic(), policy(requirement="risk_limit = 0.35", roles=CLINIC))
    assert error.value.hint == (
        f"Suppress records with the most frequent sensitive values, or ask for risk_limit = 0.381 or more {useful}"
    )
    single = pa.table({"sex": ["F", "F", "M", "M"], "disease": ["flu", "flu", "flu", "gout"]})
    with pytest.raises(Infeasible, match=r"'F / flu'") as error:
        planned(single, policy(f'scope = "sensitive"\n{AS_PUBLISHED}', "l = 2", CLINIC))
    assert error.value.hint == "Suppress records with the most frequent sensitive values."
    with pytest.raises(Infeasible, match=r"'F / cancer'") as error:
        planned(clinic(), policy(f'scope = "sensitive"\n{AS_PUBLISHED}', "l = 6", CLINIC))
    assert error.value.hint == (
        "Suppress records with the most frequent sensitive values, or ask for l = 5, or for risk_limit = 0.184 or more "
        "(from a limit of 0.224 on, its counts beat holding all combinations to be alike)."
    )


def test_a_proposed_limit_can_be_kept_at_a_useful_cost() -> None:
    """The least reachable risk costs all there is; the proposed limit beats a uniform guess, and hardly more does."""
    made = planned(clinic(), policy(requirement="risk_limit = 0.396", roles=CLINIC))
    shares = np.array([20, 30, 22, 12, 8, 8]) / 100
    assert made.figures.uniform_l2 == pytest.approx(((shares - 1 / 6) ** 2).sum())
    assert made.figures.expected_l2 <= made.figures.uniform_l2
    assert not any("leaves next to nothing" in note for note in made.notes)
    beyond = planned(clinic(), policy(requirement="risk_limit = 0.39", roles=CLINIC))
    assert beyond.figures.expected_l2 > beyond.figures.uniform_l2
    assert any("Ask for a larger limit" in note for note in beyond.notes)


def test_it_randomizes_nothing_for_nothing() -> None:
    with pytest.raises(Infeasible, match=r"keeps the limit \(its largest risk posterior is 0.428571\)") as error:
        planned(clinic(), policy(requirement="risk_limit = 0.9", roles=CLINIC))
    assert "nothing would be randomized. That says nothing of someone who sees disease of a row" in error.value.message
    group = '[[requirement.groups]]\nwhere = { disease = "gout" }\nrisk_limit = 0.31'
    with pytest.raises(Infeasible, match=r"largest risk posterior is 0.428571"):  # gout is nearest to its limit
        planned(clinic(), policy(requirement=f"risk_limit = 0.9\n{group}", roles=CLINIC))


def pairs(counts: dict[str, tuple[int, int]]) -> pa.Table:
    """A table of sex and disease, flu or gout, from the numbers of both."""
    rows = [(sex, disease) for sex, (flu, gout) in counts.items() for disease in ["flu"] * flu + ["gout"] * gout]
    return pa.table(dict(zip(("sex", "disease"), map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize("options", ["", 'risk = "link"', AS_PUBLISHED])
@pytest.mark.parametrize(
    "overall", ['risk_limit = "3/5"', 'l = 2\n[[requirement.groups]]\nwhere = { sex = ["F", "M"] }\nrisk_limit = "3/5"']
)
def test_a_limit_that_the_table_meets_exactly_is_kept_by_it(options: str, overall: str) -> None:
    """As a float 3/5 is less: noise for that would publish the table as it is, and say that it does not."""
    with pytest.raises(Infeasible, match=r"The table as it is keeps the limit \(its largest risk \w+ is 0.6\)"):
        planned(pairs({"F": (300, 200), "M": (200, 300)}), policy(options, overall, CLINIC))


@pytest.mark.parametrize("options", ["", 'risk = "link"'])
def test_where_nothing_depends_on_the_quasi_identifiers_the_share_is_kept(options: str) -> None:
    with pytest.raises(Infeasible, match=r"The table as it is keeps the limit \(its largest risk \w+ is 0.5\)"):
        planned(pairs({"F": (10, 10), "M": (20, 20)}), policy(options, "l = 2", CLINIC))


def test_the_curve_is_exact_too() -> None:
    """With a limit of 1/2 on the table's own shares of 1/2 nothing is needed."""
    third = pa.table({"sex": ["M"] * 10, "disease": ["gold"] * 10})
    table = pa.concat_tables([pairs({"F": (10, 10), "M": (5, 5)}), third])
    made = planned(table, policy(requirement="risk_limit = 0.45", roles=CLINIC))
    assert (made.figures.trade_off[0].l, made.figures.trade_off[0].kappa) == (2, 1)


def test_one_of_several_sensitive_columns_can_be_at_more_risk() -> None:
    """A combination has twelve values and a small risk; hiv alone has two. Against the definition, dense."""
    rows = [(sex, hiv, day) for sex, few in (("F", 1), ("M", 3)) for day in "abcdef" for hiv in "n" * 5 + "y" * few]
    table = pa.table(dict(zip(("sex", "hiv", "day"), map(list, zip(*rows, strict=True)), strict=True)))
    table = pa.concat_tables([table, table.filter(pc.equal(table["day"], "a"))])
    roles = {"sex": "quasi_identifier", "hiv": "sensitive", "day": "sensitive"}
    made = planned(table, policy(requirement="risk_limit = 0.22", roles=roles))
    assert made.figures.risks["posterior"] <= 0.22
    assert list(made.figures.risks_alone) == ["hiv", "day"]
    for name, found in made.figures.risks_alone.items():
        pairs, values = list(zip(table["sex"].to_pylist(), table[name].to_pylist(), strict=True)), "nyabcdef"
        counts = np.array([[pairs.count((sex, value)) for value in values] for sex in "FM"])
        released = made.mechanisms[0].matrix.dense() @ counts
        assert found == pytest.approx((released / released.sum(axis=1, keepdims=True)).max(), rel=1e-12)
    assert made.figures.risks_alone["hiv"] > 0.7
    assert any(limit.startswith("The limit is on combinations of hiv, day") for limit in made.guarantee.limits)
    assert (
        f"posterior, hiv alone: {made.figures.risks_alone['hiv']:.2%}; the limit is on combinations" in made.explain()
    )


def test_alone_in_a_randomized_compound_too() -> None:
    """As published the compound has noise; of one column that is noise in the same matrix, summed."""
    rows = [(s, d, o) for s in "FM" for d in ("flu", "gout", "gout") for o in ("ill", "well", "well", "well")] * 3
    table = pa.table(dict(zip(("sex", "disease", "outcome"), map(list, zip(*rows, strict=True)), strict=True)))
    roles = CLINIC | {"outcome": "sensitive"}
    made = planned(table, policy(f'scope = "sensitive"\n{AS_PUBLISHED}', "risk_limit = 0.3", roles))
    (mechanism,) = made.mechanisms
    column = np.kron(np.eye(2), np.ones((1, 2)))  # sums over the outcomes
    dense = column @ mechanism.matrix.dense() @ column.T / 2
    channel = Channel.from_diagonal(2, float(dense[0, 0]))
    counts = np.array([[12, 24], [12, 24]])
    alone = Reconstruction(JointTable.from_array(counts), (Channel(2, 1.0, 0.0), channel))
    assert made.figures.risks_alone["disease"] == pytest.approx(alone.values.max(), rel=1e-9)


def test_link_is_bounded_with_the_own_row_too() -> None:
    made = planned(clinic(), policy('risk = "link"', "risk_limit = 0.4", CLINIC))
    bound = made.figures.link_with_own_row
    assert bound is not None
    assert made.figures.risks["link"] < bound < made.figures.risks["link"] + 0.03
    assert f"link, own row    {bound:.2%}  at most" in made.explain()
    (told,) = [limit for limit in made.guarantee.limits if "own row, a hit" in limit]
    assert 0 <= float(re.findall(r"0\.\d+", told)[0]) - bound < 0.001
    assert "the expected share of the true value x among rows" in made.guarantee.sentence


def test_the_hash_of_the_counts_depends_on_the_values() -> None:
    """The same numbers of other people are another table."""
    renamed = clinic().set_column(0, "sex", pc.replace_substring(clinic()["sex"], "M", "X"))
    one, two, same = (profile(scan(rows, policy(roles=CLINIC))) for rows in (clinic(), renamed, clinic()))
    assert one.numbers.tolist() == two.numbers.tolist()
    assert counts_hash(one) == counts_hash(same) != counts_hash(two)


def test_a_limit_that_floating_point_cannot_hold_is_refused() -> None:
    for number, end in (("1e-400", 0), ("1e-31", 0), ("0.99999999999999999999", 1)):
        with pytest.raises(PolicyError, match=f"risk_limit is too near to {end} to compute with"):
            policy(requirement=f'risk_limit = "{number}"')
    with pytest.raises(PolicyError, match="risk_limit of sex F is too near to 1"):
        GroupLimit((("sex", ("F",)),), "0.99999999999999999999")


def test_a_plan_is_kept_and_read_again(tmp_path: Path) -> None:
    group = '[[requirement.groups]]\nwhere = { sex = "F" }\nrisk_limit = "2/5"'
    asked = policy(f'{AS_PUBLISHED}\nobjective = "chi-square"', f"l = 3\n{group}", CLINIC)
    made = planned(clinic(), asked).bound_to("table", "policy")
    file = tmp_path / "plan.json"
    file.write_text(made.to_json(), encoding="utf-8")
    again = load_plan(file)
    assert isinstance(again.figures, ResponseFigures)
    assert again.to_dict() == made.to_dict()
    assert (again.claim, again.figures, again.guarantee) == (made.claim, made.figures, made.guarantee)
    assert again.explain() == made.explain()
    again.require("table", "policy")
    with pytest.raises(PlanMismatch, match="The table is not the one that was planned"):
        again.require("another", "policy")
    file.write_text(made.to_json().replace('"rows": 100', '"rows": 101'), encoding="utf-8")
    with pytest.raises(PlanMismatch, match="not as it was made"):
        load_plan(file)


def test_the_json_page_lists_the_keys() -> None:
    group = '[[requirement.groups]]\nwhere = { sex = "F" }\nrisk_limit = "2/5"'
    made = planned(clinic(), policy(AS_PUBLISHED, f"l = 3\n{group}", CLINIC)).to_dict()
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    section = page.split("## Plan of `randomized-response`\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    assert [key for line in lines for key in re.findall(r"`(\w+)`", line.split("|")[1])] == list(made)
    named = set(re.findall(r"`(\w+)`", section))
    for nested in ("attributes", "binding", "trade_off", "mechanisms", "limits"):
        assert set(made[nested][0]) <= named, nested
    assert set(made["risks"]) <= named


def test_a_group_of_no_value_is_an_error() -> None:
    group = '[[requirement.groups]]\nwhere = { sex = "X" }\nl = 2'
    with pytest.raises(PolicyError, match="names 'X', which is not a value of 'sex'"):
        planned(clinic(), policy(AS_PUBLISHED, f"l = 3\n{group}", CLINIC))


@pytest.mark.parametrize("method", ["", AS_PUBLISHED, 'risk = "link"'])
def test_a_group_of_no_record_is_noted(method: str) -> None:
    """Nobody in the clinic is of the declared sex X, and no woman of the other table has gout: each alone occurs."""
    roles = {"sex": 'quasi_identifier; domain = ["F", "M", "X"]', "disease": "sensitive"}
    no_gout = clinic().filter(pc.or_(pc.equal(clinic()["sex"], "M"), pc.not_equal(clinic()["disease"], "gout")))
    for rows, where, empty in (
        (clinic(), 'sex = "X"', "sex X"),
        (clinic(), 'sex = ["X", "F"]', None),
        (clinic(), 'sex = "F", disease = "gout"', None),
        (no_gout, 'sex = "F", disease = "gout"', "sex F and disease gout"),
        (no_gout, 'sex = ["F", "M"], disease = "gout"', None),
    ):
        group = f"[[requirement.groups]]\nwhere = {{ {where} }}\nrisk_limit = 0.415"
        made = planned(rows, policy(method, f"risk_limit = 0.42\n{group}", roles))
        notes = [note for note in made.to_dict()["notes"] if "No record belongs" in note]
        expected = f"No record belongs to the group {empty}: its limit of 41.5% holds for nobody."
        assert [note.startswith(expected) for note in notes] == ([True] if empty else []), where
        assert all(note in made.explain() for note in notes)


def test_it_explains_itself() -> None:
    text = planned(clinic(), policy(AS_PUBLISHED, roles=CLINIC)).explain()
    for line in (
        "100 records in 2 groups by sex; 0 of these have a single disease. Method randomized-response, assurance "
        "as-published.",
        "Each record keeps its sex and disease with a chance that belongs to the column",
        "Not covered: It bounds no inference: hits by wrongly linked rows are not counted",
        "reconstruction   33.20%  right row and right value by drawing, AD Eq. (6); limited",
        "best guesser     42.86%  at most; 42.00% on average over the records",
        "Nearest to the limit: sex / disease",
        "  M / flu: 33.20% of 33.33%",
        "with retentions that are not rounded to two digits it would be 0.003581",
        "What another limit 1/l for all records would cost (stated: 1/3)",
        "no mechanism helps against it",
    ):
        assert line in text


@pytest.mark.parametrize("risk", ["posterior", "link"])
def test_the_proved_risks_name_who_is_not_covered(risk: str) -> None:
    made = planned(clinic(), policy(f'risk = "{risk}"', "risk_limit = 0.42", CLINIC))
    assert made.figures.risks[risk] <= 0.42
    assert "42%" in made.guarantee.sentence
    assert "Not for someone who sees the published disease of the row too: it is the true one." in made.guarantee.limits
    assert any(limit.startswith("Shares are expected ones") for limit in made.guarantee.limits) == (risk == "link")
