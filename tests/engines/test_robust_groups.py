"""Robust groups, from table to files: dealt by chance, each looked at again, and withheld rows nowhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.attackers.residue import everything
from sfumato.engines.deal.anatomy import regrouped
from sfumato.engines.rows.mapping import WORD
from sfumato.errors import Infeasible, PlanMismatch
from sfumato.methods.robustness import rehearsal
from sfumato.methods.robustness.check import worst_posteriors
from sfumato.methods.robustness.grouping import leftovers
from sfumato.methods.robustness.posterior import compositions
from sfumato.methods.robustness.prior import count_prior
from sfumato.values.randomness import SecretKey
from sfumato.values.steps import WITHHELD
from tests.conftest import make_policy, slow
from tests.engines.test_publish_groups import SETS, WARD_ROLES, check_exact, failed, planned, policy_of, released, wards
from tests.engines.tools import DISEASES, ROLES, listing, patients
from tests.release.test_residues import all_bytes


def test_robust_groups_are_for_the_joint_table(tmp_path: Path) -> None:
    """As many records of each value, but in other cells."""
    _, plan = planned(wards(), policy_of("robust, table"))
    table = wards()
    moved = table.set_column(2, "sex", pa.array(table["sex"].to_pylist()[::-1]))
    with pytest.raises(PlanMismatch):
        sf.publish(sf.scan(moved, policy_of("robust, table")), plan, tmp_path / "r")


def test_prior_files(tmp_path: Path) -> None:
    """The priors of the plan are those of the files; the release says where they come from, and not what they are."""
    lines = [f"{sex},{disease},0.25" for sex in "FM" for disease in DISEASES]
    (tmp_path / "sex.csv").write_text("\n".join(["sex,value,probability", *lines]))
    columns = "\n".join(f'[columns.{name}]\nrole = "{role}"' for name, role in ROLES.items())
    columns = columns.replace("[columns.age]", '[columns.age]\npublish_as_is = "a test follows rows by it"')
    (tmp_path / "p.toml").write_text(
        f'{columns}\n[method]\nname = "robust-anatomy"\nattribute_sets = [["sex"]]\nprior = ["sex.csv"]\n'
        "[requirement]\nr = 2\n"
    )
    release = released(patients(), sf.Policy.load(tmp_path / "p.toml"), tmp_path / "r")
    assert failed(release) == []
    check_exact(release, patients())
    assert release.manifest.groups.prior == "file"  # type: ignore[union-attr]
    assert "posteriors" in [c.name for c in release.verify().checks if c.status == "needs audit"]
    assert b"0.25" not in all_bytes(release.folder)


# --- chance ----------------------------------------------------------------------------------------------------------

NORTH = ["flu", "flu", "flu", "gout", "mumps"]
SOUTH = ["flu", "gout", "gout", "mumps", "mumps", "asthma", "asthma"]
BELIEFS = {  # Pr(disease | ward)
    "north": {"flu": 0.4, "gout": 0.2, "mumps": 0.2, "asthma": 0.2},
    "south": {"flu": 0.34, "gout": 0.06, "mumps": 0.3, "asthma": 0.3},
}
WARDS = [f"north {k // 5}" for k in range(40)] + [f"south {k // 7}" for k in range(56)]
SMALL = pa.table({"n": list(range(96)), "ward": WARDS, "disease": NORTH * 8 + SOUTH * 8})
SMALL_ROLES = {"n": "other", "ward": "quasi_identifier", "disease": "sensitive"}


def small_policy(options: str, folder: Path) -> sf.Policy:
    """Return a policy for r = 2 and what is known by ward; a file of beliefs lies beside it."""
    known = [(ward, BELIEFS[ward[:5]]) for ward in sorted(set(WARDS))]
    lines = [f"{ward},{disease},{share}" for ward, shares in known for disease, share in shares.items()]
    (folder / "beliefs.csv").write_text("\n".join(["ward,value,probability", *lines]))
    columns = "".join(f'[columns.{name}]\nrole = "{role}"\n' for name, role in SMALL_ROLES.items())
    columns = columns.replace("[columns.n]", '[columns.n]\npublish_as_is = "a test follows rows by it"')
    method = f'[method]\nname = "robust-anatomy"\nattribute_sets = [["ward"]]\n{options}\n'
    (folder / "policy.toml").write_text(f"{columns}{method}[requirement]\nr = 2\n")
    return sf.Policy.load(folder / "policy.toml")


def roommates(release: sf.Release) -> dict[int, tuple[str, ...]]:
    """Return the diseases of the others in the group of each published record; () where one is of another ward."""
    rows = pq.read_table(release.data, columns=["n", "group"])
    groups: dict[int, list[int]] = defaultdict(list)
    for n, group in zip(rows["n"].to_pylist(), rows["group"].to_pylist(), strict=True):
        groups[group].append(n)
    disease = SMALL["disease"].to_pylist()
    return {
        n: tuple(disease[k] for k in members if k != n) if len({WARDS[k] for k in members}) == 1 else ()
        for members in groups.values()
        for n in members
    }


@pytest.mark.parametrize(
    ("options", "with_guests"),
    [
        ('prior = "none"', False),
        ('prior = ["beliefs.csv"]', True),
        ('prior = "table"\nassurance = "as-published"', False),
    ],
    ids=["none", "file", "as published"],
)
def test_chance_decides_which_record_goes_where(options: str, with_guests: bool, tmp_path: Path) -> None:
    """In each of eight wards flu comes three times: with gout, with mumps, and left over: withheld, or a guest.

    All six ways are alike likely, whatever happens in other wards: 15 keys, 120 ways. Pearson's statistic has 5 degrees
    of freedom and exceeds 36 by chance with probability 1e-6.
    """
    opened, plan = planned(SMALL, small_policy(options, tmp_path))
    ways: Counter[tuple[tuple[str, ...], ...]] = Counter()
    guests = 0
    for seed in range(15):
        with_whom = roommates(sf.publish(opened, plan, tmp_path / str(seed), key=SecretKey.from_seed(seed)))
        ways.update(tuple(with_whom.get(n, ()) for n in range(ward, ward + 3)) for ward in range(0, 40, 5))
        guests += sum(n in with_whom for n in range(40)) - 32
    assert (guests > 40) == with_guests
    possible = list(permutations([("gout",), ("mumps",), ()]))
    assert set(ways) <= set(possible)
    assert sum((ways[way] - 20) ** 2 / 20 for way in possible) < 36


def test_another_key_makes_other_groups(tmp_path: Path) -> None:
    """The same key makes the same groups: it is nothing but the key that decides."""
    opened, plan = planned(wards(), policy_of("robust, table"))

    def group_of(name: str, seed: int) -> dict[int, int]:
        rows = sf.publish(opened, plan, tmp_path / name, key=SecretKey.from_seed(seed)).to_arrow()
        return dict(zip(rows["age"].to_pylist(), rows["group"].to_pylist(), strict=True))

    first, again, other = group_of("a", 1), group_of("b", 1), group_of("c", 2)
    assert first == again
    assert first.keys() != other.keys()
    both = first.keys() & other.keys()
    assert sum(first[age] == other[age] for age in both) < len(both) / 5


def test_places_in_a_robust_group_tell_nothing_of_values(tmp_path: Path) -> None:
    """A table sorted by value, eight groups of three, 40 keys: in no group does the place tell a value.

    Pearson's statistics of the groups have 4 degrees of freedom each; their sum exceeds 86 by chance with probability
    1e-6.
    """
    disease = sorted(DISEASES[:3] * 8)
    table = pa.table({"n": list(range(24)), "ward": ["north"] * 24, "disease": disease})
    policy = make_policy(SMALL_ROLES, "r = 3", "robust-anatomy", options='attribute_sets = [["ward"]]')
    opened, plan = planned(table, policy)
    found = np.zeros((8, 3, 3))  # (group, place, value)
    for seed in range(40):
        rows = sf.publish(opened, plan, tmp_path / str(seed), key=SecretKey.from_seed(seed))
        values = pq.read_table(rows.data)["n"].to_numpy().reshape(8, 3) // 8
        found += values[:, :, np.newaxis] == np.arange(3)
    assert float(((found - 40 / 3) ** 2 / (40 / 3)).sum() * 2 / 3) < 86


def test_the_same_groups_come_in_another_order_with_another_key(tmp_path: Path) -> None:
    """40 given groups of three: two keys put each in the same order with probability 1/6; 20 or more: 1.2e-6."""
    rows = pa.table({"n": list(range(120)), "disease": sorted(DISEASES[:3] * 40)})
    groups, codes = np.arange(120) % 40, np.repeat(np.arange(3), 40)
    domain = sf.profile(sf.scan(rows, make_policy({"n": "other", "disease": "sensitive"}, "l = 3", "anatomy"))).domain
    orders = []
    worded = rows.append_column(WORD, pa.array(np.zeros(120, dtype=np.uint64)))  # not looked at: groups are given
    for seed in (1, 2):
        tables = regrouped(worded.to_batches(), codes, groups, domain, {}, SecretKey.from_seed(seed), tmp_path)
        published = pa.Table.from_batches(tables.rows)
        assert published["group"].to_pylist() == [k // 3 + 1 for k in range(120)]
        orders.append(np.array(published["n"].to_pylist()).reshape(40, 3))
    assert (np.sort(orders[0]) == np.sort(orders[1])).all()
    assert (orders[0] == orders[1]).all(axis=1).sum() < 20


# --- the last look ---------------------------------------------------------------------------------------------------


def test_a_group_that_breaches_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every group is looked at again, whoever made it."""
    opened, plan = planned(wards(), policy_of("robust, table"))
    grouped = rehearsal.group_records

    def careless(*args: Any) -> Any:
        groups = grouped(*args)
        groups[0] = groups[1] if groups[0] != groups[1] else groups[2]
        return groups

    monkeypatch.setattr(rehearsal, "group_records", careless)
    with pytest.raises(Infeasible, match="exceeds 1/2 under the prior"):
        sf.publish(opened, plan, tmp_path / "r")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("prior", ["none", "table"])
@pytest.mark.parametrize("sets", [[["sex"], ["sex", "ward"]], [["sex", "ward"], ["sex"]]], ids=["second", "first"])
def test_every_attribute_set_is_looked_at(
    sets: list[list[str]], prior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group of two records of one sex: who knows the sex believes 1/2, who knows the ward too believes more."""
    policy = make_policy(WARD_ROLES, "r = 2", "robust-anatomy", options=f'attribute_sets = {sets}\nprior = "{prior}"')
    table = wards()
    opened, plan = planned(table, policy)
    rows = table.to_pylist()
    pair = [0, next(k for k, row in enumerate(rows) if differing(row, rows[0]) == {"name", "age", "ward", "disease"})]

    def careless(*args: Any) -> Any:
        groups = np.full(300, WITHHELD)
        groups[pair] = 0
        return groups

    monkeypatch.setattr(rehearsal, "group_records", careless)
    with pytest.raises(Infeasible, match="exceeds 1/2 under the prior of sex, ward;"):
        sf.publish(opened, plan, tmp_path / "r")
    assert listing(tmp_path) == []


def differing(row: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in row if row[name] != other[name]}


def test_equal_words_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([[3, 3], [1, 1], [2, 5]])
    monkeypatch.setattr(SecretKey, "words", lambda *args: np.array(next(drawn), dtype=np.uint64))
    assert rehearsal._different_words(SecretKey.fresh(), 2).tolist() == [2, 5]


# --- residues ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_value_whose_records_are_all_withheld_is_nowhere(format: str, tmp_path: Path) -> None:
    """All records of one ward have one disease: none can be published, and the observed domain does not tell it."""
    ward = ["north"] * 40 + ["rareward"] * 3
    disease = ["flu", "gout"] * 20 + ["hiddenpox"] * 3
    table = pa.table({"ward": ward, "note": [f"note {k}" for k in range(43)], "disease": disease})
    policy = make_policy(
        {"ward": "quasi_identifier", "note": "other", "disease": "sensitive"},
        "r = 2", "robust-anatomy", options='attribute_sets = [["ward"]]',
    )  # fmt: skip
    release = released(table, policy, tmp_path / "r", format)
    content = all_bytes(release.folder)
    assert b"note 39" in content
    assert not any(token in content for token in (b"hiddenpox", b"rareward", b"note 40"))
    assert release.manifest.domain.labels == ("flu", "gout")
    assert failed(release) == []
    assert (release.manifest.groups.withheld, release.manifest.data.rows) == (3, 40)  # type: ignore[union-attr]


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", ["robust", "robust, table", "robust as published", "rotation"])
def test_nothing_of_a_withheld_row_is_in_the_files(kind: str, format: str, tmp_path: Path) -> None:
    """Notes, in a plain and in a dictionary column, that one row has: those of withheld rows are in no byte."""
    notes = [f"note {k:03}." for k in range(300)]
    towns = pa.array([f"town {k:03}." for k in range(300)]).dictionary_encode()
    table = wards().append_column("note", pa.array(notes)).append_column("town", towns)
    release = released(table, policy_of(kind, {**WARD_ROLES, "note": "other", "town": "other"}), tmp_path / "r", format)
    published = set(release.to_arrow()["note"].to_pylist())
    assert 0 < len(set(notes) - published) == release.manifest.groups.withheld  # type: ignore[union-attr]
    content = all_bytes(release.folder)
    for note in notes:
        assert (note.encode() in content) == (note in published)
        assert (note.replace("note", "town").encode() in content) == (note in published)


# --- values that nobody has -------------------------------------------------------------------------------------------


FILE = "robust, file"


def uniform_beliefs(values: list[str], folder: Path) -> list[Path]:
    """Write for each attribute set that every value is alike likely."""
    known = {"sex": ["F", "M"], "sex,ward": [f"{sex},ward {k}" for sex in "FM" for k in range(3)]}
    for columns, signatures in known.items():
        lines = [f"{signature},{value},1/{len(values)}" for signature in signatures for value in values]
        (folder / f"{columns}.csv").write_text("\n".join([f"{columns},value,probability", *lines]))
    return [folder / f"{columns}.csv" for columns in known]


@pytest.mark.parametrize("kind", ["anatomy", "rotation", "robust", "robust, table", FILE])
def test_declared_values_that_nobody_has(kind: str, tmp_path: Path) -> None:
    """A declared domain whose first, middle and last values nobody has is published whole; the rest is as without."""
    domain = ["ague", *DISEASES[:2], "croup", *DISEASES[2:], "zoster"]
    roles = {**WARD_ROLES, "disease": f"sensitive; domain = {domain}"}
    known = f"{SETS}prior = {[str(path) for path in uniform_beliefs(domain, tmp_path)]}"
    policy = make_policy(roles, "r = 2", "robust-anatomy", options=known) if kind == FILE else policy_of(kind, roles)
    opened, plan = planned(wards(), policy)
    release = sf.publish(opened, plan, tmp_path / "r", key=SecretKey.from_seed(1))
    assert failed(release) == []
    check_exact(release, wards())
    assert release.manifest.domain.labels == tuple(domain)
    assert [plan.figures.counts[domain.index(value)] for value in ("ague", "croup", "zoster")] == [0, 0, 0]
    assert (plan.figures.published + plan.figures.withheld == plan.figures.counts).all()
    assert release.groups is not None
    told = b"".join(everything(release.groups))
    assert [value.encode() in told for value in domain] == [value in DISEASES for value in domain]


# --- bounds -----------------------------------------------------------------------------------------------------------

ADULT = "adult_complete_45222.parquet"


@pytest.mark.parametrize(
    ("r", "sets", "prior"),
    [
        (5, [["sex", "race"]], "table"),
        slow(3, [["sex"], ["sex", "race"], ["education"]], "table"),
        (3, [["sex"], ["sex", "race"], ["education"]], "none"),
    ],
)
def test_robust_groups_of_adult(
    r: int, sets: list[list[str]], prior: str, tmp_path: Path, real_data: Callable[[str], Path]
) -> None:
    """Read back from the files, every posterior is at most 1/r, and no more is withheld than the formula gives."""
    columns = ["sex", "race", "education", "occupation"]
    table = pq.read_table(real_data(ADULT), columns=columns)
    table = table.append_column("row", pa.array(range(table.num_rows)))
    roles = {**dict.fromkeys(columns[:3], "quasi_identifier"), "occupation": "sensitive", "row": "other"}
    options = f'attribute_sets = {sets}\nprior = "{prior}"'
    opened, plan = planned(table, make_policy(roles, f"r = {r}", "robust-anatomy", options=options))
    release = sf.publish(opened, plan, tmp_path / "r")
    assert release.verify().holds
    rows = release.to_arrow()
    group, row = (np.array(rows[name].to_pylist()) for name in ("group", "row"))
    values = _codes(table, ["occupation"])
    cells = _codes(table, [name for name in columns[:3] if any(name in names for names in sets)])
    assert table.num_rows - rows.num_rows <= leftovers(cells, values, r)
    for names in sets:
        signatures = _codes(table, names)
        known = count_prior(signatures, values)
        published = compositions(group - 1, signatures[row], values[row])
        assert worst_posteriors(published, known).max() * r <= 1 + 1e-9
    lines = release.groups_to_arrow()
    told = Counter(zip(lines["group"].to_pylist(), lines["occupation"].to_pylist(), strict=True))
    held = defaultdict(int)
    occupation = table["occupation"].to_pylist()
    for g, n in zip(group.tolist(), row.tolist(), strict=True):
        held[g, occupation[n]] += 1
    counts = dict(zip(told, lines["count"].to_pylist(), strict=True))
    assert counts == dict(held)


def _codes(table: pa.Table, names: list[str]) -> Any:
    rows = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    number = {row: k for k, row in enumerate(sorted(set(rows)))}
    return np.array([number[row] for row in rows], dtype=np.int64)
