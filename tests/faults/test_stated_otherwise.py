"""A release that was made with a manifest that contradicts itself, and sealed: checksums agree, `verify` does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from sfumato.analyst.release import Release, open_release
from sfumato.claims.claim import Shape
from sfumato.claims.odds import OddsClaim, adversary_of_noise
from sfumato.claims.steps import StepsClaim
from sfumato.errors import ReleaseError
from sfumato.methods import plan
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile, scan
from sfumato.release.folder import MANIFEST_NAME, README_NAME, file_sha256
from sfumato.release.manifest import Manifest
from sfumato.values.bound import Bound
from sfumato.values.matrix.deck import DeckMatrix
from tests.conftest import make_policy
from tests.engines.tools import ROLES, patients, sealed

DECLARED = "domain = ['asthma', 'flu', 'gout', 'mumps']"
GROUPED = {"name": "identifier", "age": "drop", "sex": "quasi_identifier", "disease": "sensitive"}


def made(folder: Path, requirement: str, method: str, roles: dict[str, str], options: str = "") -> Release:
    """Return a release from a secret key, of a table in which some values are missing."""
    rows = patients(2000)
    told = [
        None if k % 40 == 0 and "drop" in roles["disease"] else v for k, v in enumerate(rows["disease"].to_pylist())
    ]
    policy = make_policy(roles, requirement, method, "", options)
    table = scan(rows.set_column(3, "disease", pa.array(told)), policy)
    return publish(table, plan(profile(table), table.policy.method, table.policy.requirement), folder)


def wrong(release: Release, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the manifest, seal it, and return what the check of the statement says."""
    raw = release.manifest.model_dump()
    change(raw)
    found = sealed(Manifest.model_validate(raw), release.folder).verify()
    return next(check.detail for check in found.checks if check.name == "guarantee, as stated")


def no_left_out_rows(raw: dict[str, Any]) -> None:
    raw["computed_from_table"], raw["from_table"] = (), False
    raw["guarantee"] |= {"adversary": adversary_of_noise(()), "strength": "any prior"}


def treated(name: str, treatment: str) -> Callable[[dict[str, Any]], None]:
    def change(raw: dict[str, Any]) -> None:
        next(column for column in raw["columns"] if column["name"] == name)["treatment"] = treatment

    return change


def second(raw: dict[str, Any]) -> None:
    raw["second_release"] = "A second release of the same people tells nothing new."


def merged(raw: dict[str, Any]) -> None:
    raw["merged"] = {"age": {"old": ("80", "81")}}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (no_left_out_rows, "computed_from_table"),
        (treated("disease", "untouched"), "treatments"),
        (treated("age", "randomized"), "treatments"),
        (treated("age", "merged"), "treatments"),
        (merged, "treatments"),
        (second, "second_release"),
    ],
)
def test_of_randomized_values(change: Callable[[dict[str, Any]], None], key: str, tmp_path: Path) -> None:
    roles = ROLES | {
        "disease": f"sensitive; missing = 'drop'; {DECLARED}",
        "age": "quasi_identifier; publish_as_is = 'x'",
    }
    release = made(tmp_path / "r", "gamma = 3", "uniform", roles)
    assert "computed_from_table" not in wrong(release, lambda raw: None)
    assert key in wrong(release, change)


@pytest.mark.parametrize("gamma", ["0", "1/2"])
def test_a_gamma_that_no_noise_keeps(gamma: str, tmp_path: Path) -> None:
    roles = ROLES | {"disease": f"sensitive; {DECLARED}"}
    release = made(tmp_path / "r", "gamma = 3", "uniform", roles)
    raw = release.manifest.model_dump()
    raw["mechanisms"][0]["sub_tables"][0]["bounds"][0]["gamma"] = gamma
    changed = sealed(Manifest.model_validate(raw), release.folder)
    assert not changed.verify().holds
    with pytest.raises(ReleaseError, match="a gamma of"):
        list(changed.manifest.mechanism_values)


def test_of_groups(tmp_path: Path) -> None:
    release = made(tmp_path / "r", "l = 2", "anatomy", GROUPED)
    assert "second_release" in wrong(release, second)
    assert "treatments" in wrong(made(tmp_path / "s", "l = 2", "anatomy", GROUPED), treated("sex", "randomized"))


def test_of_what_sub_tables_are_made_for(tmp_path: Path) -> None:
    roles = ROLES | {"age": "quasi_identifier; publish_as_is = 'x'"}
    release = made(tmp_path / "r", 'rho1 = "1/4"\nrho2 = "1/2"', "small-domain", roles)

    def raised(raw: dict[str, Any]) -> None:
        raw["mechanisms"][0]["rho1"] = "3/4"

    assert "rho1" in wrong(release, raised)


@pytest.mark.parametrize("assurance", ["proved", "as-published"])
def test_a_method_of_any_name_is_held_to_what_is_stated_of_its_matrix(assurance: str, tmp_path: Path) -> None:
    """Under another name no more may be stated than the integers prove: in both directions, or of any statement."""
    strict = 'rho1 = "1/5"\nrho2 = "1/2"\n[[requirement.values]]\nvalue = "gout"\nrho1 = "1/10"\nrho2 = "1/6"'
    roles = ROLES | {"disease": f"sensitive; {DECLARED}"}
    table = scan(patients(2000), make_policy(roles, strict, "fine-grain", "", f'assurance = "{assurance}"'))
    release = publish(table, plan(profile(table), table.policy.method, table.policy.requirement), tmp_path / "r")

    def failing(scope: str, directions: list[str]) -> set[str]:
        """Return the checks that fail if the manifest, sentence and all, states this under another name."""
        manifest = release.manifest
        claim = OddsClaim(scope, tuple(directions), as_published=assurance == "as-published")  # type: ignore[arg-type]
        stated = claim.guarantee(Shape(manifest.mechanism_values, computed=manifest.computed_from_table))

        raw = manifest.model_dump() | {"method": "toy", "guarantee": asdict(stated)}
        raw["second_release"] = claim.second_release(Shape(manifest.mechanism_values), keyed=False)
        found = sealed(Manifest.model_validate(raw), release.folder).verify()
        return {check.name for check in found.checks if check.status == "fails"}

    upward, both = ["upward"], ["upward", "downward"]
    assert not failing("single values", upward)
    assert failing("single values", both) == (set() if assurance == "proved" else {"guarantee, downward"})
    assert "guarantee, any predicate" in failing("any predicate", both)
    for other in ("anatomy", "suppression", "robust-anatomy", "randomized-response", "small-domain", "uniform"):
        assert not wrong(release, lambda raw, other=other: raw.update(method=other)).startswith("It is")


@pytest.mark.parametrize(
    ("method", "requirement", "part", "key", "told"),
    [
        (
            "anatomy",
            "l = 2",
            "groups",
            "at_most",
            "Not what follows from the method, its limit and the columns: at_most",
        ),
        (
            "randomized-response",
            "risk_limit = 0.414",
            "response",
            "limit",
            "risk_limit must be a finite number or a fraction such as '1/7', not '1/0'.",
        ),
    ],
)
def test_a_limit_that_cannot_be_read_is_told(
    method: str, requirement: str, part: str, key: str, told: str, tmp_path: Path
) -> None:
    release = made(tmp_path / "r", requirement, method, GROUPED)
    raw = json.loads(release.manifest.to_json())
    raw[part][key] = "1/0"
    (release.folder / "manifest.json").write_text(json.dumps(raw), encoding="utf-8")
    found = open_release(release.folder).verify()
    assert next(check.detail for check in found.checks if check.name == "guarantee, as stated").startswith(told)


def as_sets(raw: dict[str, Any]) -> None:
    raw["mechanisms"][0]["form"] = "set"


def named_like_a_card(raw: dict[str, Any]) -> None:
    raw["mechanisms"][0]["domain"][0]["values"] = ("card 1", "flu", "gout", "mumps")


@pytest.mark.parametrize("change", [as_sets, named_like_a_card])
def test_cards_that_would_be_written_alike_fail(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    """Of four values two at a time a deck has some sets twice: that is for numbers of cards, and not for sets."""
    options = 'members = 2\nform = "card"'
    table = scan(patients(2000), make_policy(ROLES, "gamma = 2", "subset", "", options))
    release = publish(table, plan(profile(table), table.policy.method, table.policy.requirement), tmp_path / "r")
    raw = release.manifest.model_dump()
    change(raw)
    found = sealed(Manifest.model_validate(raw), release.folder).verify()
    told = {check.name: check.detail for check in found.checks if check.status == "fails"}
    assert "written alike" in told["domain"]


def in_steps(folder: Path) -> Release:
    """Return a release of values in order, which neighbours are told apart by less than others."""
    roles = ROLES | {"disease": f"sensitive; {DECLARED}; ordered = true"}
    return made(folder, "gamma = 3", "geometric", roles, "steps = 1")


def bounds_of(raw: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = raw["mechanisms"][0]["sub_tables"][0]["bounds"]
    return found


@pytest.mark.parametrize("scope", ["any predicate", "single values"])
def test_a_factor_for_everybody_holds_of_any_statement(scope: str, tmp_path: Path) -> None:
    """A bound on one value in the middle, which is told apart by less, must not be told as one on any statement."""
    release = in_steps(tmp_path / "r")
    raw, matrix = release.manifest.model_dump(), release.manifest.mechanism_values[0].matrix
    least = min(max(matrix.upward(code) or 0, matrix.downward(code) or 0) for code in range(4))
    assert least < (matrix.largest_ratio or 0)
    none = {"gamma": None, "rho1": None, "rho2": None, "given": ""}
    raw["mechanisms"][0]["sub_tables"][0]["bounds"] = [none, none | {"gamma": str(least)}, none, none]
    raw["guarantee"]["scope"] = scope
    manifest = Manifest.model_validate(raw)
    claim = StepsClaim(scope=scope, steps=1, bound=Bound(Fraction(3)))  # type: ignore[arg-type]
    stated = claim.guarantee(Shape(manifest.mechanism_values, computed=manifest.computed_from_table))
    found = sealed(manifest.model_copy(update={"guarantee": stated}), release.folder).verify()
    assert not found.holds
    assert in_steps(tmp_path / "s").verify().holds


def no_gamma(raw: dict[str, Any]) -> None:
    bounds_of(raw)[0]["gamma"] = None


def no_gamma_near(raw: dict[str, Any]) -> None:
    raw["mechanisms"][0]["near"]["bound"]["gamma"] = None


def certain(raw: dict[str, Any]) -> None:
    bounds_of(raw)[0]["rho1"] = "0"


@pytest.mark.parametrize("change", [no_gamma, no_gamma_near, certain])
@pytest.mark.parametrize("method", ["uniform", "geometric"])
def test_what_promises_nothing_is_told_and_ends_in_no_traceback(
    change: Callable[[dict[str, Any]], None], method: str, tmp_path: Path
) -> None:
    if change is no_gamma_near and method == "uniform":
        return
    release = in_steps(tmp_path / "r") if method == "geometric" else made(tmp_path / "r", "gamma = 3", method, ROLES)
    raw = release.manifest.model_dump()
    change(raw)
    found = sealed(Manifest.model_validate(raw), release.folder)
    assert not found.verify().holds
    for tells in ("card", "why"):
        with suppress(ReleaseError):
            getattr(found.manifest, tells)


def test_a_mechanism_has_a_column(tmp_path: Path) -> None:
    raw = made(tmp_path / "r", "gamma = 3", "uniform", ROLES).manifest.model_dump()
    raw["mechanisms"][0]["domain"] = ()
    with pytest.raises(ValidationError, match="domain"):
        Manifest.model_validate(raw)


def too_small(raw: dict[str, Any]) -> None:
    raw["response"]["limit"] = "1/5"


def bounded(raw: dict[str, Any]) -> None:
    for mechanism in raw["mechanisms"]:
        mechanism["sub_tables"][0]["bounds"] = [{"gamma": "2", "rho1": None, "rho2": None, "given": ""}]


@pytest.mark.parametrize("risk", ["posterior", "link"])
@pytest.mark.parametrize(("change", "check"), [(too_small, "risk limit"), (bounded, "guarantee, as stated")])
def test_a_risk_that_no_table_has(
    risk: str, change: Callable[[dict[str, Any]], None], check: str, tmp_path: Path
) -> None:
    """A value that 2 in 5 have is believed by that much at least; and these matrices have no bound on odds."""
    release = made(tmp_path / "r", "risk_limit = 0.414", "randomized-response", GROUPED, f'risk = "{risk}"')
    assert release.verify().holds
    raw = release.manifest.model_dump()
    change(raw)
    manifest = Manifest.model_validate(raw)
    shape = Shape(manifest.mechanism_values, computed=manifest.computed_from_table)
    stated = manifest.model_copy(update={"guarantee": manifest.claim.guarantee(shape)})
    found = sealed(stated, release.folder).verify()
    assert {each.name for each in found.checks if each.status == "fails"} == {check}


def no_observed_domain(raw: dict[str, Any]) -> None:
    raw["observed_domains"] = ()


def discloses_nothing(raw: dict[str, Any]) -> None:
    raw["discloses_frequencies"] = False


@pytest.mark.parametrize(
    ("change", "requirement", "method"),
    [
        (no_observed_domain, "gamma = 3", "uniform"),
        (no_observed_domain, "l = 2", "anatomy"),
        (discloses_nothing, 'tolerance = 2\nrho1 = "observed"', "fine-grain"),
    ],
)
def test_what_is_listed_as_computed_is_stated_as_such(
    change: Callable[[dict[str, Any]], None], requirement: str, method: str, tmp_path: Path
) -> None:
    release = made(tmp_path / "r", requirement, method, GROUPED)
    assert wrong(release, lambda raw: None).startswith("It is")
    assert "Not what follows" in wrong(release, change)


def renamed(raw: dict[str, Any]) -> None:
    raw["columns"][0]["name"] = "weight"


def swapped(raw: dict[str, Any]) -> None:
    """Let one column go by the name of the other: both are text in the file."""
    first, second = (column["name"] for column in raw["columns"][:2])
    raw["columns"][0]["name"], raw["columns"][1]["name"] = second, first


def recounted(raw: dict[str, Any]) -> None:
    raw["groups"]["count_column"] = "number"


@pytest.mark.parametrize(
    ("method", "requirement", "change", "file"),
    [
        ("uniform", "gamma = 3", renamed, "data.csv"),
        ("uniform", "gamma = 3", swapped, "data.csv"),
        ("anatomy", "l = 2", renamed, "data.csv"),
        ("anatomy", "l = 2", recounted, "groups.csv"),
    ],
)
def test_the_names_in_a_text_file_are_those_that_are_stated(
    method: str, requirement: str, change: Callable[[dict[str, Any]], None], file: str, tmp_path: Path
) -> None:
    """Rows of text are read by the names of the manifest: by another one, answers would be about another column."""
    table = scan(patients(2000), make_policy(ROLES, requirement, method))
    counted = plan(profile(table), table.policy.method, table.policy.requirement)
    release = publish(table, counted, tmp_path / "r", format="csv")
    assert release.verify().holds
    raw = release.manifest.model_dump()
    change(raw)
    found = sealed(Manifest.model_validate(raw), release.folder).verify()
    assert f"header of {file}" in {check.name for check in found.checks if check.status == "fails"}


@pytest.mark.parametrize(("name", "told"), [("Estimate", "figure"), ("lower", "figure"), ("AGE", "one name to SQL")])
def test_a_column_that_no_answer_could_show_is_refused(name: str, told: str, tmp_path: Path) -> None:
    """Answers put their figures in the place of such a column, or gave those of another one."""
    release = made(tmp_path / "r", "gamma = 3", "uniform", ROLES)
    raw = json.loads(release.manifest.to_json())
    raw["columns"][1]["name"] = name
    (release.folder / MANIFEST_NAME).write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(ReleaseError, match=told):
        open_release(release.folder)


def test_an_order_names_each_value_once(tmp_path: Path) -> None:
    """Every question that shows its column would be refused, in words about a policy that its reader has not."""
    roles = ROLES | {"sex": "quasi_identifier; domain = ['F', 'M']"}
    raw = made(tmp_path / "r", "gamma = 3", "uniform", roles).manifest.model_dump()
    column = next(column for column in raw["columns"] if column["name"] == "sex")
    assert column["order"] == ("F", "M")
    column["order"] = ("F", "M", "F")
    with pytest.raises(ValidationError, match="each value once"):
        Manifest.model_validate(raw)


@pytest.mark.parametrize("key", ["release_id", "created", "software", "method"])
@pytest.mark.parametrize("text", ["{}\n\nNobody can be told from others.", "{} (certified)", "<b>{}</b>", ""])
def test_a_name_is_no_sentence(key: str, text: str, tmp_path: Path) -> None:
    """These stand in the title and beside the promise, in the words of whoever wrote the manifest."""
    release = made(tmp_path / "r", "gamma = 3", "uniform", ROLES)
    raw = json.loads(release.manifest.to_json())
    raw[key] = text.format(raw[key])
    (release.folder / MANIFEST_NAME).write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(ReleaseError, match=key):
        open_release(release.folder)


def retold(release: Release, before: str, now: str, **stated: str) -> dict[str, str]:
    """Change the README, seal it, and return what does not hold of it, by status."""
    made = sealed(release.manifest.model_copy(update=stated), release.folder)
    path = release.folder / README_NAME
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, now), encoding="utf-8")
    due, own = (file_sha256(path), made.manifest.readme_sha256)
    manifest = release.folder / MANIFEST_NAME
    manifest.write_text(manifest.read_text(encoding="utf-8").replace(own, due), encoding="utf-8")
    return {c.status: c.detail for c in open_release(release.folder).verify().checks if c.name == README_NAME}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("## How to use it", "Someone at most 20% sure of it will not get above 21%.\n\n## How to use it"),
        ("will not get above 25%", "will not get above 11%"),
        ("- Not covered: ", "- Covered too: "),
        ("Checksum of manifest.json", "Nobody can be told from others. Checksum of manifest.json"),
    ],
)
def test_a_readme_that_promises_more_than_its_manifest_fails(before: str, now: str, tmp_path: Path) -> None:
    release = made(tmp_path / "r", "gamma = 3", "uniform", ROLES)
    assert retold(release, before, before) == {}
    found = retold(release, before, now)
    assert "Line" in found["fails"]
    assert now.splitlines()[0][:40] in found["fails"]


def test_a_readme_in_the_words_of_another_version_is_told_and_not_judged(tmp_path: Path) -> None:
    release = made(tmp_path / "r", "gamma = 3", "uniform", ROLES)
    found = retold(release, "## How to use it", "## Using it", software="sfumato 0.0.9")
    assert "sfumato 0.0.9" in found["not checked"]
    assert open_release(release.folder).verify().holds


def test_the_chances_of_all_cards_are_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deck may have a million cards, and makes a list of as many numbers whenever it is asked."""
    table = scan(patients(2000), make_policy(ROLES, "gamma = 2", "subset", "", 'members = 2\nform = "card"'))
    release = publish(table, plan(profile(table), table.policy.method, table.policy.requirement), tmp_path / "r")
    asked, chances = [], DeckMatrix.least_chance.fget
    monkeypatch.setattr(DeckMatrix, "least_chance", property(lambda deck: asked.append(deck) or chances(deck)))
    assert release.verify().holds
    assert len(asked) == 1
