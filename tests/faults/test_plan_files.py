"""Plan files from others: every one is refused with a message, or published and verified. Nothing is believed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.embedded.engine import EmbeddedEngine
from sfumato.errors import CannotMeet, PlanMismatch, SfumatoError
from sfumato.methods.plan import content_hash
from sfumato.publisher.publish import to_sign
from sfumato.publisher.table import Table
from tests.conftest import make_policy, slow
from tests.engines.tools import DISEASES, listing, patients, planned

ROLES = {"name": "identifier", "age": "drop", "sex": "quasi_identifier", "disease": "sensitive"}
TWO = ROLES | {"sex": "sensitive"}
LISTED = f"domain = {DISEASES}"
RHO = "rho1 = 0.3\nrho2 = 0.7"
POLICIES: dict[str, Callable[[], sf.Policy]] = {
    "uniform": lambda: make_policy(ROLES, RHO),
    "uniform, declared": lambda: make_policy(ROLES | {"disease": f"sensitive; {LISTED}"}, RHO),
    "fine-grain": lambda: make_policy(ROLES, 'tolerance = 2\nrho1 = "observed"', "fine-grain"),
    "subset": lambda: make_policy(ROLES, RHO, "subset", options='form = "set"'),
    "ranges": lambda: make_policy(ROLES | {"disease": f"sensitive; {LISTED}; ordered = true"}, RHO, "ranges"),
    "geometric": lambda: make_policy(
        ROLES | {"disease": f"sensitive; {LISTED}; ordered = true"}, RHO, "geometric", options="steps = 1"
    ),
    "small-domain": lambda: make_policy(ROLES, RHO, "small-domain"),
    "randomized-response": lambda: make_policy(ROLES, "risk_limit = 0.38", "randomized-response"),
    "anatomy": lambda: make_policy(ROLES, "l = 2", "anatomy"),
    "suppression": lambda: make_policy(ROLES, "l = 3", "suppression"),
    "robust-anatomy": lambda: make_policy(
        ROLES, "r = 2", "robust-anatomy", options='attribute_sets = [["sex"]]\nprior = "table"'
    ),
    "kept order": lambda: sf.Policy.parse(
        "[columns.name]\nrole='identifier'\n[columns.age]\nrole='drop'\n[columns.sex]\nrole='quasi_identifier'\n"
        f"[columns.disease]\nrole='sensitive'\n[method]\nname='uniform'\n[requirement]\n{RHO}\n[output]\norder='keep'"
    ),
}
ODD: list[Any] = [None, True, -1, 0, 3, 2**31, 2**63, 10**400, 1e308, 0.5, "", "x", "1/0", "\0", [], [[]], {}, {"a": 1}]


def signed(name: str, table: Any = None) -> tuple[Table, dict[str, Any]]:
    """Return a table, and the plan that was signed off for it."""
    opened = sf.scan(patients() if table is None else table, POLICIES[name]())
    return opened, to_sign(opened, planned(opened)).to_dict()


def written(plan: dict[str, Any], folder: Path) -> Path:
    """Write a plan with a hash that fits it."""
    file = folder / "plan.json"
    file.unlink(missing_ok=True)
    file.write_text(json.dumps(plan | {"plan_hash": content_hash({k: v for k, v in plan.items() if k != "plan_hash"})}))
    return file


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the place of everything in a document; of long lists the first, the second and the last."""
    if place:
        yield place
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys if isinstance(value, dict) else sorted({*keys[:2], *keys[-1:]}):
        yield from places(value[key], (*place, key))


def mutations(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the plan with one thing taken out, doubled, put into a list, or put in the place of another."""
    found = []
    for *way, last in places(plan):
        for odd in (*ODD, "gone", "twice", "in a list"):
            changed = copy.deepcopy(plan)
            owner = changed
            for key in way:
                owner = owner[key]
            if odd == "gone":
                del owner[last]
            elif odd == "twice":
                owner[last] = [owner[last], owner[last]]
            elif odd == "in a list":
                owner[last] = [owner[last]]
            else:
                owner[last] = odd
            found.append(changed)
    return found


@pytest.mark.parametrize("cases", [12, slow(2000)])
@pytest.mark.parametrize("name", POLICIES)
def test_a_changed_plan_is_refused_or_holds(name: str, cases: int, tmp_path: Path) -> None:
    opened, plan = signed(name)
    every = mutations(plan)
    (tmp_path / "out").mkdir()
    for number, changed in enumerate(random.Random(name).sample(every, min(cases, len(every)))):
        try:
            release = sf.publish(opened, sf.load_plan(written(changed, tmp_path)), tmp_path / "out" / str(number))
        except SfumatoError:
            assert not (tmp_path / "out" / str(number)).exists()
        else:
            failed = {check.name for check in release.verify().checks if check.status == "fails"}
            assert failed <= {"secret key"}, changed  # a plan may be said to come from a seed


@pytest.mark.parametrize("name", POLICIES)
def test_no_list_may_be_inside_another(name: str, tmp_path: Path) -> None:
    opened, plan = signed(name)
    lists = [key for key, value in plan.items() if isinstance(value, list)]
    assert lists
    for key in lists:
        with pytest.raises(SfumatoError):
            sf.publish(opened, sf.load_plan(written({**plan, key: [plan[key]]}, tmp_path)), tmp_path / "out")


@pytest.mark.parametrize("name", POLICIES)
def test_the_plan_itself_is_published(name: str, tmp_path: Path) -> None:
    opened, plan = signed(name)
    assert sf.publish(opened, sf.load_plan(written(plan, tmp_path)), tmp_path / "r").verify().holds


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "null", "{}", "[" * 100_000, '{"plan_version": ' + "9" * 5000 + "}", "\ufeff{}", '{"a": NaN}'],
)
def test_what_is_no_plan(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(SfumatoError, match="is not a plan of this version"):
        sf.load_plan(tmp_path / "plan.json")


# --- sealed anew ------------------------------------------------------------------------------------------------------


def with_guarantee(**other: Any) -> Callable[[dict[str, Any]], None]:
    return lambda plan: plan["guarantee"].update(other)


def fewer_rows(plan: dict[str, Any]) -> None:
    plan["rows"] -= 1


def other_counts(plan: dict[str, Any]) -> None:
    plan["counts"][0] -= 1
    plan["counts"][1] += 1


RESEALED: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no shuffle": ("uniform", lambda plan: plan.update(shuffle=False)),
    "no shuffle of response": ("randomized-response", lambda plan: plan.update(shuffle=False)),
    "no shuffle of buckets": ("anatomy", lambda plan: plan.update(shuffle=False)),
    "frequencies are not told of": ("fine-grain", lambda plan: plan.update(discloses_frequencies=False)),
    "a domain that is not observed": ("uniform", lambda plan: plan.update(observed=[], computed_from_table=[])),
    "nothing computed": ("uniform", lambda plan: plan.update(computed_from_table=[], from_table=False)),
    "another sentence": ("uniform", with_guarantee(sentence="Nobody learns anything.")),
    "no limits": ("uniform", with_guarantee(limits=[])),
    "a wider scope": ("fine-grain", with_guarantee(scope="any predicate")),
    "one direction": ("uniform", with_guarantee(directions=["upward"])),
    "fewer rows": ("uniform", fewer_rows),
    "fewer rows of buckets": ("anatomy", fewer_rows),
    "fewer rows of response": ("randomized-response", fewer_rows),
    "other counts": ("uniform", other_counts),
    "a larger domain than declared": (
        "uniform, declared",
        lambda plan: plan["parts"][0].update(values=["asthma", "flu", "gout", "typhus"]),
    ),
    "another column": ("uniform", lambda plan: (plan["parts"][0].update(name="sex"), plan.update(sensitive=["sex"]))),
    "a prior of one's own": ("robust-anatomy", lambda plan: plan.update(priors=[])),
    "another column of sub-tables": ("small-domain", lambda plan: plan.update(sub_table_column="sex")),
}


@pytest.mark.parametrize("change", RESEALED)
def test_a_resealed_plan_is_not_published(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before a row is written, and so before what `publish` itself verifies at its end."""
    name, apply = RESEALED[change]
    opened, plan = signed(name)
    apply(plan)
    monkeypatch.delattr(EmbeddedEngine, "write")
    with pytest.raises(PlanMismatch):
        sf.publish(opened, sf.load_plan(written(plan, tmp_path)), tmp_path / "r")
    assert listing(tmp_path) == ["plan.json"]


def test_a_resealed_plan_cannot_keep_an_order_that_tells(tmp_path: Path) -> None:
    """The policy asks to keep the order, the plan shuffled because somebody asked for it; sealed anew it would not."""
    rows = patients().sort_by("disease")
    opened = sf.scan(rows, POLICIES["kept order"]())
    plan = to_sign(opened, planned(opened, shuffle=True)).to_dict()
    kept = to_sign(opened, planned(opened, shuffle=False)).to_dict()
    assert plan["shuffle"]
    assert not kept["shuffle"]
    with pytest.raises(CannotMeet, match="cannot keep their order"):
        sf.publish(opened, sf.load_plan(written(kept, tmp_path)), tmp_path / "r")
    assert sf.publish(opened, sf.load_plan(written(plan, tmp_path)), tmp_path / "r").manifest.data.shuffled


def test_several_columns(tmp_path: Path) -> None:
    text = (
        "[columns.a]\nrole='sensitive'\n[columns.a.method]\nname='uniform'\n[columns.a.requirement]\nrho1=0.2\nrho2=0.6\n"
        "[columns.b]\nrole='sensitive'\n[method]\nname='fine-grain'\n[requirement]\ntolerance=2\nrho1='observed'\n"
    )
    table = pa.table({"a": ["x", "y", "z"] * 30, "b": ["u", "v", "w", "v", "v"] * 18})
    opened = sf.scan(table, sf.Policy.parse(text))
    plan = to_sign(opened, planned(opened)).to_dict()
    assert sf.publish(opened, sf.load_plan(written(plan, tmp_path)), tmp_path / "r").verify().holds
    plan["columns"][0]["guarantee"]["scope"] = "any predicate"
    with pytest.raises(SfumatoError):
        sf.publish(opened, sf.load_plan(written(plan, tmp_path)), tmp_path / "s")
