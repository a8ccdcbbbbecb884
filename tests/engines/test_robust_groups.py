"""Robust groups, from table to files: dealt by chance, each looked at again, and withheld rows nowhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato import publishing_groups
from sfumato.errors import Infeasible, PlanMismatch
from sfumato.methods.robustness import compositions, count_prior, leftovers, worst_posteriors
from sfumato.randomness import SecretKey
from tests.conftest import make_policy
from tests.engines.test_publish_groups import check_exact, failed, planned, policy_of, released, wards
from tests.engines.test_residues import all_bytes
from tests.engines.tools import DISEASES, ROLES, listing, patients


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


# --- the last look


def test_a_group_that_breaches_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every group is looked at again, whoever made it."""
    opened, plan = planned(wards(), policy_of("robust, table"))
    grouped = publishing_groups.group_records

    def careless(*args: Any) -> Any:
        found = grouped(*args)
        groups = found.groups.copy()
        groups[0] = groups[1] if groups[0] != groups[1] else groups[2]
        return replace(found, groups=groups)

    monkeypatch.setattr(publishing_groups, "group_records", careless)
    with pytest.raises(Infeasible, match="exceeds 1/2 under the prior"):
        sf.publish(opened, plan, tmp_path / "r")
    assert listing(tmp_path) == []


def test_equal_words_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([[3, 3], [1, 1], [2, 5]])
    monkeypatch.setattr(SecretKey, "words", lambda *args: np.array(next(drawn), dtype=np.uint64))
    assert publishing_groups._different_words(SecretKey.fresh(), 2).tolist() == [2, 5]


# --- residues


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


# --- bounds

ADULT = "adult_complete_45222.parquet"


@pytest.mark.parametrize(
    ("r", "sets", "prior"),
    [
        (5, [["sex", "race"]], "table"),
        (3, [["sex"], ["sex", "race"], ["education"]], "table"),
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
