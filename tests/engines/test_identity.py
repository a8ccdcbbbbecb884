"""Persons with several rows, and record keys by which a record keeps its draw in later releases."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pacsv
from scipy.stats import chi2

from sfumato.engines.base import RecordKey
from sfumato.errors import PolicyError, TableError, UsageError
from sfumato.publisher.table import profile, scan
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import NO_BOUND, Mechanism
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import patients, released, rows_of

ALARM = 1e-6

# --- persons ------------------------------------------------------------------------------------------------------


def visits(persons: int = 2000, each: int = 3) -> pa.Table:
    """Return a table of several rows per person, mixed; `visit` is the number of the row among its person's."""
    rng = np.random.default_rng(6)
    order = rng.permutation(persons * each)
    return pa.table(
        {
            "person": [f"p{k // each}" for k in order],
            "visit": [int(k % each) for k in order],
            "disease": rng.choice(["flu", "gout"], persons * each).tolist(),
        }
    )


def person_policy(repeated: str) -> Any:
    return make_policy(
        {"person": "other", "visit": "other", "disease": "sensitive"},
        extra=f'person = {{ column = "person", repeated = "{repeated}" }}',
    )


@pytest.mark.parametrize("size", [64, 1 << 19], ids=["many batches", "one batch"])
def test_one_row_of_each_person_every_one_equally_likely(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarm 1e-6; power: the first, the last or a doubly likely row of each person would be found."""
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=size)
    check_persons(visits(), tmp_path / "r")


def check_persons(table: Any, folder: Path) -> None:
    """Publish one visit of each person, and count which."""
    release = released(table, person_policy("keep-one"), folder=folder)
    rows = rows_of(release)
    assert Counter(person for person, _, _ in rows) == Counter({f"p{k}": 1 for k in range(2000)})
    counts = Counter(visit for _, visit, _ in rows)

    def surprise(counts: dict[str, int]) -> float:
        return float(chi2.sf(sum((counts[v] - 2000 / 3) ** 2 / (2000 / 3) for v in "012"), 2))

    assert surprise(counts) > ALARM
    assert surprise({"0": 1000, "1": 500, "2": 500}) < ALARM


def test_the_row_that_is_kept_depends_on_the_seed(tmp_path: Path) -> None:
    first, second = (
        {r[:2] for r in rows_of(released(visits(50), person_policy("keep-one"), folder=tmp_path / str(s), seed=s))}
        for s in (1, 2)
    )
    assert first != second


def test_repeated_persons_are_an_error_unless_something_is_said(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="6,000 rows belong to 2,000 persons") as caught:
        profile(scan(visits(), person_policy("error")))
    assert "keep-one" in caught.value.hint


def test_what_to_do_about_repeated_persons_fits_the_method() -> None:
    roles = {"person": "identifier", "s": "sensitive"}
    table = pa.table({"person": [1, 1, 2, 3], "s": ["a", "b", "a", "b"]})
    for method, requirement in (("anatomy", "l = 2"), ("small-domain", "rho1 = 0.2\nrho2 = 0.5")):
        policy = make_policy(roles, requirement, method, '[person]\ncolumn = "person"\n')
        with pytest.raises(TableError) as caught:
            profile(scan(table, policy))
        assert "keep-one" not in caught.value.hint
        assert 'person.repeated = "per-row"' in caught.value.hint


def test_repeated_persons_can_be_published_per_row(tmp_path: Path) -> None:
    release = released(visits(30), person_policy("per-row"), folder=tmp_path / "r")
    assert release.manifest.data.rows == 90


def test_persons_who_come_once_are_no_error(tmp_path: Path) -> None:
    assert released(visits(200, 1), person_policy("error"), folder=tmp_path / "r").manifest.data.rows == 200


@pytest.mark.parametrize("repeated", ["error", "keep-one"])
def test_a_person_without_a_name_is_an_error(repeated: str, tmp_path: Path) -> None:
    table = pa.table({"person": ["a", "b", None], "visit": [1, 2, 3], "disease": ["flu", "gout", "flu"]})
    policy = make_policy(
        {"person": "identifier", "visit": "other", "disease": "sensitive"},
        extra=f'person = {{ column = "person", repeated = "{repeated}" }}',
    )
    with pytest.raises(TableError, match="'person' is missing in row 3"):
        released(table, policy, folder=tmp_path / "r")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("as_dictionary", [False, True])
@pytest.mark.parametrize("repeated", ["error", "keep-one"])
def test_what_is_no_number_names_no_person(repeated: str, as_dictionary: bool, tmp_path: Path) -> None:
    numbers = pa.array([1.0, 2.0, float("nan"), float("nan")])  # not two rows of one person
    table = pa.table({"person": numbers, "disease": ["flu", "gout", "flu", "gout"]})
    if as_dictionary:
        table = table.set_column(0, "person", numbers.dictionary_encode())
    policy = make_policy(
        {"person": "identifier", "disease": "sensitive"},
        extra=f'person = {{ column = "person", repeated = "{repeated}" }}',
    )
    with pytest.raises(TableError, match="'person' is missing in row 3"):
        released(table, policy, folder=tmp_path / "r")
    assert not list(tmp_path.iterdir())


# --- record keys --------------------------------------------------------------------------------------------------


KEY = SecretKey(bytes(range(32)), kept=True)
DOMAIN = "domain = ['asthma', 'flu', 'gout', 'mumps']"


def keyed(series: str = "patients", **changes: Any) -> Any:
    roles = {"name": "identifier", "age": "other", "sex": "other", "disease": f"sensitive; {DOMAIN}"}
    return make_policy(roles, extra=f'record_key = "name"\nseries = "{series}"', **changes)


def drawn(table: Any, folder: Path, policy: Any = None, key: SecretKey = KEY) -> dict[str, str]:
    """Return the published disease of each record, found by its unique age."""
    release = released(table, policy or keyed(), folder=folder, key=key)
    return {age: disease for age, _, disease in rows_of(release)}


def test_a_record_keeps_its_draw(tmp_path: Path) -> None:
    table = patients()
    first = drawn(table, tmp_path / "first")
    assert drawn(table.take(np.random.default_rng(0).permutation(300)), tmp_path / "reordered") == first
    more = patients(400).slice(300).set_column(1, "age", [[1000 + k for k in range(100)]])
    appended = drawn(pa.concat_tables([more, table]), tmp_path / "appended")
    assert {age: appended[age] for age in first} == first
    pacsv.write_csv(table, tmp_path / "t.csv")
    assert drawn(tmp_path / "t.csv", tmp_path / "csv") == first
    pq.write_table(table.slice(0, 100), tmp_path / "t.parquet")
    part = drawn(tmp_path / "t.parquet", tmp_path / "part")
    assert part.items() <= first.items()


def test_numbers_keep_their_draw_as_text(tmp_path: Path) -> None:
    """An integer key and an integer value are the same in Parquet and in CSV: else noise would be drawn twice."""
    rng = np.random.default_rng(1)
    table = pa.table({"id": range(300), "grade": rng.integers(9, 12, 300)})
    roles = {"id": "other", "grade": "sensitive; domain = [9, 10, 11]"}
    policy = make_policy(roles, extra='record_key = "id"\nseries = "grades"')
    pacsv.write_csv(table, tmp_path / "t.csv")
    first, second = (
        set(rows_of(released(given, policy, folder=tmp_path / name, key=KEY)))
        for name, given in (("a", table), ("b", tmp_path / "t.csv"))
    )
    assert first == second


def test_another_key_value_or_matrix_draws_afresh(tmp_path: Path) -> None:
    """With one word for two values, a published value that changes would prove that neither was noise."""
    table = patients()
    first = drawn(table, tmp_path / "first")
    other = drawn(table, tmp_path / "key", key=SecretKey(bytes(32), kept=True))
    looser = drawn(table, tmp_path / "matrix", keyed(requirement="rho1 = 0.2\nrho2 = 0.500001"))
    rotated = {"asthma": "flu", "flu": "gout", "gout": "mumps", "mumps": "asthma"}
    moved = table.set_column(3, "disease", [[rotated[d] for d in table["disease"].to_pylist()]])
    changed = drawn(moved, tmp_path / "value")
    # the same noise would give a published value that is the same, or follows the change, in nearly all records
    for second in (other, looser, changed):
        same = sum(first[age] == second[age] for age in first)
        assert 30 < same < 220
    truth = dict(zip(map(str, table["age"].to_pylist()), table["disease"].to_pylist(), strict=True))
    kept = [age for age in first if first[age] == truth[age]]
    assert any(looser[age] != truth[age] for age in kept)


def mechanism(column: str = "disease", labels: str = "abc", retention: float = 0.5) -> Mechanism:
    matrix = PerturbationMatrix.from_retention([retention] * len(labels))
    return Mechanism.single(SensitiveDomain((Domain(column, tuple(labels)),)), matrix, (NO_BOUND,) * len(labels))


def test_t8_series_column_labels_and_matrix_are_in_the_context() -> None:
    """Where one differs the message of the keyed function does, so that its words are independent."""
    contexts = [
        RecordKey("name", "one").noise_context(mechanism()),
        RecordKey("name", "two").noise_context(mechanism()),
        RecordKey("name", "one").noise_context(mechanism("illness")),
        RecordKey("name", "one").noise_context(mechanism(labels="abd")),
        RecordKey("name", "one").noise_context(mechanism(labels="ab")),
        RecordKey("name", "one").noise_context(mechanism(retention=0.25)),
        RecordKey("name", 'one",[["disease"').noise_context(mechanism()),
        RecordKey("name", "onedise").noise_context(mechanism("ase")),
    ]
    assert len(set(contexts)) == len(contexts)
    # not in it: a record key may come from another column of a later table
    assert RecordKey("id", "one").noise_context(mechanism()) == contexts[0]


@pytest.mark.parametrize("change", ["nothing", "another column", "another series"])
def test_t8_another_column_or_series_draws_independently(change: str, tmp_path: Path) -> None:
    """Equal true values are published as equal as often as two independent draws are: 19 of 49 times, not always.

    gamma = 4 and four values: diagonal 4/7, others 1/7. False alarm 6e-7 (5 standard deviations).
    """
    rows = 5000
    column = "illness" if change == "another column" else "disease"
    first = pa.table({"id": range(rows), "disease": np.random.default_rng(2).choice(["asthma", "flu"], rows)})
    second = first.rename_columns(["id", column])
    releases = []
    for name, table in (("first", first), ("second", second)):
        series = "another" if (name, change) == ("second", "another series") else "one"
        roles = {"id": "other", table.column_names[1]: f"sensitive; {DOMAIN}"}
        policy = make_policy(roles, extra=f'record_key = "id"\nseries = "{series}"')
        releases.append(sorted(rows_of(released(table, policy, folder=tmp_path / name, key=KEY))))
    same = np.mean([a == b for a, b in zip(*releases, strict=True)])
    share = 1.0 if change == "nothing" else 19 / 49
    assert abs(same - share) <= 5 * np.sqrt(share * (1 - share) / rows)


@pytest.mark.parametrize("series", ["", 'series = " "'])
def test_t8_a_record_key_needs_a_series(series: str) -> None:
    with pytest.raises(PolicyError, match=r'record_key needs a series.*series = "admissions"'):
        make_policy({"id": "other", "disease": "sensitive"}, extra=f'record_key = "id"\n{series}')


def test_t8_a_series_needs_a_record_key() -> None:
    with pytest.raises(PolicyError, match="series goes with record_key"):
        make_policy({"id": "other", "disease": "sensitive"}, extra='series = "s"')


def test_t9_a_row_in_front_changes_nobodys_kept_row(tmp_path: Path) -> None:
    """With draws by row number it changed the row of 693 of 1,000 persons."""
    table = visits(1000).append_column("id", [[f"{k}" for k in range(3000)]])
    roles = {"person": "other", "visit": "other", "disease": f"sensitive; {DOMAIN}", "id": "identifier"}
    person = 'person = { column = "person", repeated = "keep-one" }'
    policy = make_policy(roles, extra=f'record_key = "id"\nseries = "visits"\n{person}')
    newcomer = pa.table({"person": ["new"], "visit": [7], "disease": ["flu"], "id": ["new"]})

    def kept(name: str, given: pa.Table) -> set[tuple[str, ...]]:
        return set(rows_of(released(given, policy, folder=tmp_path / name, key=KEY)))

    first = kept("first", table)
    later = kept("later", pa.concat_tables([newcomer, table]))
    assert len(first) == 1000
    assert {row for row in later if row[0] != "new"} == first
    # the person and the record are told apart, and another series keeps other rows
    words = RecordKey("id", "s").person_words(KEY, [b"ab", b"a"], pa.table({"id": ["c", "bc"]}), 0)
    assert words[0] != words[1]
    assert words[0] != RecordKey("id", "t").person_words(KEY, [b"ab"], pa.table({"id": ["c"]}), 0)[0]


def test_t9_every_row_of_a_person_is_as_likely_to_be_kept_with_a_record_key(tmp_path: Path) -> None:
    table = visits().append_column("id", [[f"{k}" for k in range(6000)]])
    roles = {"person": "other", "visit": "other", "disease": "sensitive", "id": "identifier"}
    extra = 'record_key = "id"\nseries = "v"\nperson = { column = "person", repeated = "keep-one" }'
    rows = rows_of(released(table, make_policy(roles, extra=extra), folder=tmp_path / "r", key=KEY))
    counts = Counter(visit for _, visit, _ in rows)
    assert chi2.sf(sum((counts[v] - 2000 / 3) ** 2 / (2000 / 3) for v in "012"), 2) > ALARM


def test_a_changed_value_leaves_all_others_as_they_were(tmp_path: Path) -> None:
    table = patients()
    values = table["disease"].to_pylist()
    values[5] = "mumps" if values[5] != "mumps" else "flu"
    first, second = drawn(table, tmp_path / "a"), drawn(table.set_column(3, "disease", [values]), tmp_path / "b")
    different = {age for age in first if first[age] != second[age]}
    assert different <= {str(table["age"][5].as_py())}


def test_duplicate_record_keys_are_an_error(tmp_path: Path) -> None:
    table = pa.concat_tables([patients(10), patients(3)])
    with pytest.raises(TableError, match="'name' is repeated: 13 rows have 3 fewer keys"):
        released(table, keyed(), folder=tmp_path / "r", key=KEY)
    assert not list(tmp_path.iterdir())


def test_a_missing_record_key_is_an_error(tmp_path: Path) -> None:
    table = patients(10).set_column(0, "name", [[None, *"abcdefghi"]])
    with pytest.raises(TableError, match="'name' is missing in row 1"):
        released(table, keyed(), folder=tmp_path / "r", key=KEY)


def test_a_record_key_needs_a_key_file_and_a_key_file_a_record_key(tmp_path: Path) -> None:
    from sfumato.publisher.publish import publish
    from tests.engines.tools import planned

    table = scan(patients(), keyed())
    for key in (None, SecretKey.fresh()):
        with pytest.raises(UsageError, match="needs a key file") as caught:
            publish(table, planned(table), tmp_path / "r", key=key)
        assert "sfumato key" in caught.value.hint
    with pytest.raises(UsageError, match="A key file goes with a record key"):
        released(patients(), folder=tmp_path / "r", key=KEY)
    assert not list(tmp_path.iterdir())


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        SecretKey.create(tmp_path / "k")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert SecretKey.load(tmp_path / "k").kept
    with pytest.raises(UsageError, match="never overwritten"):
        SecretKey.create(tmp_path / "k")
    (tmp_path / "bad").write_text("00" * 31)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        SecretKey.load(tmp_path / "bad")
    assert "0" * 8 not in repr(SecretKey(bytes(32)))


def test_no_identifier_is_left_in_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever spills: only keyed hashes go to the disk, and nothing stays."""
    import tempfile

    seen: list[bytes] = []
    cleanup = tempfile.TemporaryDirectory.cleanup
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    set_constants(monkeypatch, "sfumato.engines", MEMORY="20MB")

    def cleaning(self: Any) -> None:
        seen.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        cleanup(self)

    monkeypatch.setattr(tempfile.TemporaryDirectory, "cleanup", cleaning)
    table = pa.table({"person": [f"planted-{k}" for k in range(200)], "s": ["a", "b"] * 100})
    policy = make_policy({"person": "identifier", "s": "sensitive"}, extra='person = { column = "person" }')
    profile(scan(table, policy))
    assert not any(b"planted" in content for content in seen)
    assert not list(tmp_path.iterdir())
