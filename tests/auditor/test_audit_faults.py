"""Releases that were made wrongly, in ways that figures of the right release would hide: the audit finds each of them.

Each fault is planted in an honest release, whose checksums are then made anew: it was made so, not changed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor.finding import Finding
from sfumato.engines.deal import buckets as grouping
from sfumato.engines.embedded.shuffle import stable_order
from sfumato.errors import ReleaseError
from sfumato.publisher.policy import Policy
from sfumato.release.manifest import Column
from tests.conftest import make_policy
from tests.engines.tools import released, resealed, sealed

Names = np.ndarray
ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}
DISEASES = np.array(["asthma", "flu", "gout", "mumps", "scurvy", "typhus"])


def people(n: int = 2000, ages: int = 60, seed: int = 5) -> pa.Table:
    """Return people in random order, whose disease depends on nothing."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": (20 + rng.integers(0, ages, n)).tolist(),
            "sex": rng.choice(["F", "M"], n).tolist(),
            "disease": rng.choice(DISEASES, n, p=[0.25, 0.25, 0.2, 0.1, 0.1, 0.1]).tolist(),
        }
    )


def rewritten(release: Release, rows: Sequence[int] | Names | None = None, **columns: Names) -> Release:
    """Put other values into columns of the data, then the rows in another order, as if they had been published so."""
    data = pq.read_table(release.data)
    for name, values in columns.items():
        field = data.schema.field(name)
        column = pa.array(values.tolist())
        is_coded = pa.types.is_dictionary(field.type)
        column = column.dictionary_encode().cast(field.type) if is_coded else column.cast(field.type)
        data = data.set_column(data.schema.get_field_index(name), field, column)
    pq.write_table(data if rows is None else data.take(pa.array(rows)), release.data, store_schema=False)
    return resealed(release)


def called_shuffled(release: Release) -> Release:
    """State that the rows were shuffled."""
    made = release.manifest
    return sealed(made.model_copy(update={"data": made.data.model_copy(update={"shuffled": True})}), release.folder)


def drawn(true: Names, retention: Names | float, words: Names, values: Names = DISEASES) -> Names:
    """Draw each value by a word between 0 and 1: kept below the retention, else any value alike."""
    kept = words < retention
    noise = np.floor((words - retention) / np.where(kept, 1, 1 - np.asarray(retention)) * values.size)
    return np.where(kept, true, values[np.clip(noise, 0, values.size - 1).astype(int)])


def above(rows: pa.Table, policy: Policy, release: Release) -> list[tuple[str, str]]:
    return [(f.attacker, f.about) for f in findings(rows, policy, release) if f.verdict == "above the bound"]


def findings(rows: pa.Table, policy: Policy, release: Release) -> Sequence[Finding]:
    return sf.audit(sf.scan(rows, policy), release, seed=1).findings


def failing(release: Release) -> dict[str, str]:
    """Return the checks of `verify` that fail, but for the one on the test's key."""
    return {c.name: c.detail for c in release.verify().checks if c.status == "fails" and c.name != "secret key"}


# --- the order of the rows --------------------------------------------------------------------------------------------

UNIFORM = make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6")  # about a third of the diseases stay true
KEPT = make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", extra='[output]\norder = "keep"')


def test_audit_finds_rows_sorted_by_the_true_value_and_stated_as_shuffled(tmp_path: Path) -> None:
    rows = people()
    honest = released(rows, UNIFORM, folder=tmp_path / "r", shuffle=False)
    order = np.argsort(rows["disease"].to_numpy(zero_copy_only=False), kind="stable")
    release = called_shuffled(rewritten(honest, order))
    assert ("order", "random order") in above(rows, UNIFORM, release)
    assert "disease 'asthma' in part 1 of" in failing(release)["random order"]


def test_audit_finds_sorted_rows_by_a_column_that_others_know(tmp_path: Path) -> None:
    rows = people().sort_by("age")
    release = called_shuffled(released(rows, UNIFORM, folder=tmp_path / "r", shuffle=False))
    assert ("order", "random order") in above(rows, UNIFORM, release)
    assert list(failing(release)) == ["random order"]


def test_audit_finds_the_order_of_the_table_stated_as_shuffled(tmp_path: Path) -> None:
    rows = people(400)  # in random order: the release alone shows nothing
    release = called_shuffled(released(rows, UNIFORM, folder=tmp_path / "r", shuffle=False))
    assert not failing(release)
    assert ("order", "random order") in above(rows, UNIFORM, release)


def test_audit_finds_rows_in_pairs(tmp_path: Path) -> None:
    rows = people(1000, ages=2)
    honest = released(rows, UNIFORM, folder=tmp_path / "r", shuffle=True)
    shown = pq.read_table(honest.data)["sex"].to_pylist()
    men, women = ([k for k, sex in enumerate(shown) if sex == which] for which in "MF")
    n = min(len(men), len(women)) // 2 * 2
    pairs = np.concatenate([np.reshape(men[:n], (-1, 2)), np.reshape(women[:n], (-1, 2))])
    order = np.concatenate([np.random.default_rng(1).permutation(pairs).ravel(), men[n:], women[n:]])
    release = rewritten(honest, order)
    assert "pairs of neighbours" in failing(release)["random order"]


def test_audit_finds_records_of_groups_in_order(tmp_path: Path) -> None:
    rows, policy = people(1000), make_policy(ROLES, "l = 3", "anatomy")
    honest = released(rows, policy, folder=tmp_path / "r")
    data = pq.read_table(honest.data)
    order = np.lexsort((data["age"].to_numpy(), data["group"].to_numpy()))
    release = rewritten(honest, order)
    assert "half of their groups" in failing(release)["random order"]
    assert ("order", "random order") in above(rows, policy, release)


def test_audit_finds_rows_that_were_not_shuffled_although_the_policy_asks(tmp_path: Path) -> None:
    """T1: the flag itself must not depend on the table, so a release that says otherwise than its policy is wrong."""
    release = released(people(300), UNIFORM, folder=tmp_path / "r", shuffle=False)
    assert ("order", "as asked") in above(people(300), UNIFORM, release)
    release = released(people(300), KEPT, folder=tmp_path / "k")
    assert not above(people(300), KEPT, release)


def test_t1_what_places_tell_is_measured_where_the_order_is_kept(tmp_path: Path) -> None:
    """Rows sorted by the disease, and an order that the policy keeps: a place tells most diseases."""
    rows = people(3000).sort_by("disease")
    release = released(rows, KEPT, folder=tmp_path / "r", shuffle=False)
    (found,) = (f for f in findings(rows, KEPT, release) if f.attacker == "order")
    assert (found.verdict, found.reason) == (
        "not covered by the guarantee",
        "The rows are in the order of the table. The guarantee is about values, not about places.",
    )
    assert found.worst > 0.9 > 3 * (found.stated or 1)


# --- columns that are not the policy's --------------------------------------------------------------------------------


def with_column(release: Release, name: str, values: pa.Array, listed: bool) -> Release:
    """Put a column into the file, and into the manifest."""
    data = pq.read_table(release.data).append_column(name, values)
    pq.write_table(data, release.data, store_schema=False)
    made = resealed(release).manifest
    extra = (Column(name=name, type="string", treatment="untouched"),) if listed else ()
    return sealed(made.model_copy(update={"columns": (*made.columns, *extra)}), release.folder)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_audit_finds_an_extra_column_with_the_truth(method: str, listed: bool, tmp_path: Path) -> None:
    policy = UNIFORM if method == "uniform" else make_policy(ROLES, "l = 3", "anatomy")
    rows = people(2000)
    honest = released(rows, policy, folder=tmp_path / "r", shuffle=False if method == "uniform" else None)
    release = with_column(honest, "truth", rows["disease"].combine_chunks(), listed)
    assert failing(release)
    if listed and method == "uniform":
        assert failing(release)["copies"].startswith("'truth' is published as it is, and tells 'disease' of about ")
    with pytest.raises(ReleaseError, match=r"has a column that is not one which .*: 'truth'"):
        findings(rows, policy, release)


def test_a_column_with_the_same_labels_that_tells_little_is_no_copy(tmp_path: Path) -> None:
    rows = people(2000)
    for seed, same in enumerate((0.0, 0.3)):  # it goes with nothing, or is the true value of three in ten
        rng = np.random.default_rng(seed)
        true = rows["disease"].to_numpy(zero_copy_only=False)
        other = np.where(rng.random(2000) < same, true, rng.choice(DISEASES, 2000))
        honest = released(rows, UNIFORM, folder=tmp_path / str(seed), shuffle=False)
        assert not failing(with_column(honest, "last year", pa.array(other.tolist()), listed=True))


@pytest.mark.parametrize("listed", [False, True])
def test_audit_finds_a_column_that_is_lost(listed: bool, tmp_path: Path) -> None:
    rows = people(300)
    release = released(rows, UNIFORM, folder=tmp_path / "r")
    pq.write_table(pq.read_table(release.data).drop_columns(["age"]), release.data, store_schema=False)
    made = resealed(release).manifest
    columns = tuple(c for c in made.columns if c.name != "age") if listed else made.columns
    release = sealed(made.model_copy(update={"columns": columns}), release.folder)
    assert listed or failing(release)
    with pytest.raises(ReleaseError, match=r"lacks a column that .*: 'age'"):
        findings(rows, UNIFORM, release)


# --- the deal ---------------------------------------------------------------------------------------------------------


def test_audit_finds_groups_dealt_by_age_inside_each_value(tmp_path: Path) -> None:
    """The youngest of each disease are in the first groups: nobody need know which row of a group is whose."""
    rows, policy = people(2000), make_policy(ROLES, "l = 3", "anatomy")
    release = by_age(rows, released(rows, policy, folder=tmp_path / "r"))
    assert ("dealing", "groups") in above(rows, policy, release)


def by_age(rows: pa.Table, release: Release) -> Release:
    """Give the places of each value in the groups to its records by age."""
    lines, data = release.groups_to_arrow().to_pydict(), pq.read_table(release.data)
    age, sex, disease = (rows[name].to_numpy(zero_copy_only=False) for name in ("age", "sex", "disease"))
    record = {value: list(np.argsort(np.where(disease == value, age, 10**6), kind="stable")) for value in DISEASES}
    taken: list[int] = []
    groups: list[int] = []
    for group, value, count in zip(lines["group"], lines["disease"], lines["count"], strict=True):
        taken += [record[value].pop(0) for _ in range(count)]
        groups += [group] * count
    order = np.lexsort((np.random.default_rng(1).random(len(taken)), groups))
    assert data["group"].to_pylist() == sorted(groups)
    chosen = np.array(taken)[order]
    return rewritten(release, age=age[chosen], sex=sex[chosen])


def test_audit_finds_groups_dealt_in_batches_in_the_order_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks by place instead of by chance: batches mix them over all groups, where each row is a certain person's."""
    rows = people(3000, ages=3000).sort_by("age")
    policy = make_policy(ROLES, "l = 3", "anatomy")
    assert not above(rows, policy, released(rows, policy, folder=tmp_path / "honest"))
    monkeypatch.setattr(grouping, "order_by_word", lambda classes, words: stable_order(classes))
    release = released(rows, policy, folder=tmp_path / "r")
    assert ("dealing", "groups") in above(rows, policy, release)


def test_audit_finds_sub_tables_dealt_by_sex(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    diseases = np.array(list("abcdefghijkl"))[np.minimum(rng.geometric(0.2, 2000), 12) - 1]
    rows = people(2000).set_column(2, "disease", pa.array(diseases.tolist()))
    policy = make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", "small-domain", "", "minimum_sub_table = 30")
    honest = released(rows, policy, folder=tmp_path / "r", shuffle=True)
    shown = pq.read_table(honest.data)
    label, sex, age = (shown[name].to_numpy() for name in ("sub_table", "sex", "age"))
    # women change places with men of other sub-tables, until the first sub-table has as many of them as there are
    women = np.flatnonzero((sex == "F") & (label != 1))
    men = np.flatnonzero((sex == "M") & (label == 1))[: women.size]
    swapped = np.arange(sex.size)
    swapped[women[: men.size]], swapped[men] = men, women[: men.size]
    release = rewritten(honest, sex=sex[swapped], age=age[swapped])
    assert ("dealing", "sub-tables") in above(rows, policy, release)


# --- the draws --------------------------------------------------------------------------------------------------------


def retention(release: Release) -> float:
    return float(release.manifest.mechanism_values[0].matrix.retention[0])


@pytest.mark.parametrize("shuffle", [False, True])
def test_audit_finds_draws_that_depend_on_sex(shuffle: bool, tmp_path: Path) -> None:
    """Women keep their disease more often, men less: over all records each disease is kept as often as stated."""
    rows = people(2000, ages=4000)
    release = released(rows, UNIFORM, folder=tmp_path / "r", shuffle=False)
    p, rng = retention(release), np.random.default_rng(2)
    sex, true = (rows[name].to_numpy(zero_copy_only=False) for name in ("sex", "disease"))
    own = np.where(sex == "F", 1.5 * p, 0.5 * p)
    order = rng.permutation(2000) if shuffle else np.arange(2000)
    release = rewritten(release, order, disease=drawn(true, own, rng.random(2000)))
    release = called_shuffled(release) if shuffle else release
    found = above(rows, UNIFORM, release)
    assert ("draws", "by column") in found
    assert ("draws", "transitions") not in found


def test_audit_finds_one_word_for_two_rows(tmp_path: Path) -> None:
    rows = people(2000)
    release = released(rows, KEPT, folder=tmp_path / "r", shuffle=False)
    p, rng = retention(release), np.random.default_rng(2)
    true = rows["disease"].to_numpy(zero_copy_only=False)
    release = rewritten(release, disease=drawn(true, p, np.repeat(rng.random(1000), 2)))
    assert above(rows, KEPT, release) == [("draws", "neighbours")]


def test_audit_finds_words_that_come_back_in_every_batch(tmp_path: Path) -> None:
    rows = people(2048)
    release = released(rows, KEPT, folder=tmp_path / "r", shuffle=False)
    p, rng = retention(release), np.random.default_rng(2)
    true = rows["disease"].to_numpy(zero_copy_only=False)
    release = rewritten(release, disease=drawn(true, p, np.tile(rng.random(256), 8)))
    assert above(rows, KEPT, release) == [("draws", "neighbours")]
