"""The survey of a table: every figure against a hand count or a slow oracle."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.embedded.sources import open_source
from sfumato.engines.rows.looking import PublishedRows
from sfumato.errors import TableError
from sfumato.methods.ordered.design import errors_of_sets
from sfumato.methods.subset.design import best_subset
from sfumato.methods.subset.method import Subset
from sfumato.publisher.policy import Policy
from sfumato.publisher.survey import Survey, survey
from sfumato.publisher.survey.predictors import column_codes, information, prediction
from sfumato.publisher.table import profile, scan
from sfumato.values.requirement import Amplification
from tests.constants import set_constants

METHOD = '[method]\nname = "uniform"\n[requirement]\nepsilon = 1\n'


def policy(extra: str = "", **rules: str) -> Policy:
    columns = "".join(f"[columns.{name}]\n{rule}\n" for name, rule in rules.items())
    return Policy.parse(extra + columns + METHOD)


def surveyed(table: Any, stated: Policy, progress: list[int] | None = None) -> Survey:
    scanned = scan(table, stated)
    told = [] if progress is None else progress
    return survey(scanned.source, scanned, told.append)


def role(name: str, more: str = "") -> str:
    return f'role = "{name}"\n{more}'


SMALL = {
    "age": [23, 27, 31, 34, 38, 39, 23, 61],
    "sex": ["F", "F", "M", "M", "M", "M", None, "F"],
    "note": [1.5, math.nan, None, 1.5, 2.5, 2.5, 2.5, 2.5],
    "disease": ["flu", "flu", "flu", "flu", "flu", "hiv", "hiv", "gout"],
}


def small_policy() -> Policy:
    return policy(
        age=role("quasi_identifier", "bins = { width = 10 }"),
        sex=role("quasi_identifier", 'missing = "category"'),
        note=role("other", 'missing = "category"'),
        disease=role("sensitive"),
    )


# --- columns ------------------------------------------------------------------------------------------------


def test_without_a_policy_only_the_columns_are_described() -> None:
    found = survey(open_source(pa.table(SMALL)))
    assert (found.rows, found.uniqueness, found.sensitive, found.feasibility) == (8, None, None, None)
    facts = {c.name: (c.type, c.role, c.distinct, c.missing) for c in found.columns}
    assert facts == {
        "age": ("whole numbers", None, 7, 0),
        "sex": ("text", None, 2, 1),
        "note": ("numbers", None, 2, 2),  # NaN is missing
        "disease": ("text", None, 3, 0),
    }
    assert found.columns[0].low == 23
    assert found.columns[0].high == 61


def test_csv_tells_numbers_from_text_and_texts_that_look_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("code,price,word,gap\n007,1.5,a,\n012,2,?,x\n013,nan,NA,y\n")
    found = survey(open_source(path))
    assert [c.type for c in found.columns] == ["text (codes)", "text", "text", "text"]
    assert [c.looks_missing for c in found.columns] == [0, 1, 2, 0]
    assert found.columns[2].missing_texts == ("?", "NA")
    assert [c.missing for c in found.columns] == [0, 0, 0, 1]
    assert "look missing" in found.warnings[0]


def test_many_columns_with_many_values_are_counted_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass over all of them does not fit; one after the other does, and gives the same."""
    table = pa.table({f"x{k}": (np.arange(400_000) * (k + 1)) % 399_989 for k in range(8)})
    roomy = survey(open_source(table)).columns
    assert {c.distinct for c in roomy} == {399_989}
    set_constants(monkeypatch, "sfumato.engines", MEMORY="30MB")
    assert survey(open_source(table)).columns == roomy


def test_wide_tables_are_counted_in_several_passes() -> None:
    told: list[int] = []
    table = pa.table({f"x{k}": ["a", None, "b", "a"] for k in range(61)})
    found = survey(open_source(table), None, told.append)
    assert {(c.distinct, c.missing) for c in found.columns} == {(2, 1)}
    assert (found.rows, sum(told)) == (4, 4)


def test_a_foreign_delimiter_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age;sex\n1;F\n2;M\n")
    assert "delimiter" in survey(open_source(path)).warnings[0]


def test_any_arrow_type_is_counted() -> None:
    table = pa.table(
        {
            "list": pa.array([[1], [1], [2]]),
            "struct": pa.array([{"a": 1}, {"a": 1}, None]),
            "binary": pa.array([b"a", b"b", b"c"]),
            "fixed": pa.array([b"a", b"b", b"b"], pa.binary(1)),
            "half": pa.array(np.array([1, 2, 2], dtype=np.float16)),
            "decimal": pa.array([1, 2, None], pa.decimal128(10, 2)),
            "wide": pa.array([1, 2, 2], pa.decimal256(60, 2)),
            "nothing": pa.nulls(3),
            "day": pa.array([1, 2, 2], pa.date32()),
            "moment": pa.array([1, 2, 2], pa.timestamp("us", tz="UTC")),
            "duration": pa.array([1, 2, 2], pa.duration("s")),
            "view": pa.array(["a", "b", None], pa.string_view()),
            "large": pa.array(["a", "b", None], pa.large_string()),
            "truth": pa.array([True, False, None]),
            "huge": pa.array([2**64 - 1, 2**64 - 2, 1], pa.uint64()),
            "coded": pa.array([5, 6, 5]).dictionary_encode(),
        }
    )
    found = {c.name: (c.distinct, c.missing) for c in survey(open_source(table)).columns}
    twos = dict.fromkeys(("list", "fixed", "half", "wide", "day", "moment", "duration", "coded"), (2, 0))
    assert found == {
        **twos,
        "struct": (1, 1),
        "binary": (3, 0),
        "decimal": (2, 1),
        "nothing": (0, 3),
        "view": (2, 1),
        "large": (2, 1),
        "truth": (2, 1),
        "huge": (3, 0),
    }


def test_what_is_wrong_with_the_file_is_said_as_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(TableError, match="line 3: 3 fields instead of 2"):
        survey(open_source(path))
    with pytest.raises(TableError, match="more than once"):
        survey(open_source(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])))


def test_an_empty_table_has_columns_but_no_survey_under_a_policy() -> None:
    empty = pa.table({"age": pa.array([], pa.int64()), "disease": pa.array([], pa.string())})
    assert survey(open_source(empty)).rows == 0
    with pytest.raises(TableError, match="no rows"):
        surveyed(empty, policy(age=role("other"), disease=role("sensitive")))


# --- under a policy -----------------------------------------------------------------------------------------


def test_uniqueness_counts_binned_combinations() -> None:
    found = surveyed(pa.table(SMALL), small_policy()).uniqueness
    assert found is not None
    # (20s, F) x 2, (30s, M) x 4, (20s, missing), (60s, F)
    assert (found.records, found.combinations, found.unique_records) == (8, 4, 2)
    assert (found.unique_share, found.smallest_group) == (0.25, 1)
    assert (found.median_group, found.median_record_group) == (1.5, 2)


def test_dropped_rows_do_not_count() -> None:
    stated = policy(
        age=role("quasi_identifier", "bins = { width = 10 }"),
        sex=role("quasi_identifier", 'missing = "drop"'),
        note=role("other", 'missing = "drop"'),
        disease=role("sensitive"),
    )
    found = surveyed(pa.table(SMALL), stated).uniqueness
    assert found is not None
    # NaN stays (publishing drops nulls only); left: rows 1, 2, 4, 5, 6, 8
    assert (found.records, found.combinations, found.unique_records) == (6, 3, 1)


def test_uniqueness_equals_a_brute_force_count(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = 30_000
    table = pa.table(
        {
            "age": rng.integers(0, 100, rows),
            "zip": pa.array(rng.integers(0, 300, rows)).cast(pa.string()),
            "sex": pa.array(rng.choice(["F", "M", ""], rows)),
            "disease": rng.integers(0, 4, rows),
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=7_000)
    stated = policy(
        age=role("quasi_identifier", "bins = { breaks = [18, 40, 65] }"),
        zip=role("quasi_identifier"),
        sex=role("quasi_identifier"),
        disease=role("sensitive"),
    )
    ages = np.searchsorted([18, 40, 65], table["age"].to_numpy(), side="right")
    groups = Counter(zip(ages.tolist(), table["zip"].to_pylist(), table["sex"].to_pylist(), strict=True))
    found = surveyed(path, stated).uniqueness
    assert found is not None
    assert found.combinations == len(groups)
    assert found.unique_records == sum(1 for size in groups.values() if size == 1)
    assert found.smallest_group == min(groups.values())
    assert found.median_group == float(np.median(list(groups.values())))
    per_record = sorted(size for size in groups.values() for _ in range(size))
    assert found.median_record_group == per_record[(rows - 1) // 2]


def test_skew_eligibility_and_rare_values() -> None:
    found = surveyed(pa.table(SMALL), small_policy()).sensitive
    assert found is not None
    assert [(v.value, v.records, v.share) for v in found.most_frequent] == [
        ("flu", 5, 0.625),
        ("hiv", 2, 0.25),
        ("gout", 1, 0.125),
    ]
    assert found.largest_share == 0.625
    entropy = -(0.625 * math.log(0.625) + 0.25 * math.log(0.25) + 0.125 * math.log(0.125)) / math.log(3)
    assert found.entropy == pytest.approx(entropy)
    assert found.eligible_l == 1
    assert [(r.value, r.records) for r in found.rare] == [("gout", 1), ("hiv", 2)]


def test_the_rarest_values_are_shown_below_the_most_frequent_ones() -> None:
    """Of a domain that is declared, too: a value that few have is what a reader looks for."""
    counts = [*range(30, 20, -1), 9, 3, 1]
    values = [f"v{k:02}" for k, count in enumerate(counts) for _ in range(count)]
    found = surveyed(pa.table({"disease": values}), policy(disease=role("sensitive")))
    assert found.sensitive is not None
    assert [(v.value, v.records) for v in found.sensitive.least_frequent] == [("v12", 1), ("v11", 3), ("v10", 9)]
    shown = found.explain().split("rarest")[1].split("\n")
    assert [line.split()[0] for line in shown[1:4]] == ["v12", "v11", "v10"]
    few = surveyed(pa.table(SMALL), small_policy())
    assert few.sensitive is not None
    assert few.sensitive.least_frequent == ()
    assert "rarest" not in few.explain()


def test_errors_of_values_in_order_are_shown_as_shares() -> None:
    rows = pa.table({"age": [k % 9 for k in range(900)]})
    stated = Policy.parse('columns.age.role = "sensitive"\nmethod.name = "ranges"\nrequirement.gamma = 3')
    told = surveyed(rows, stated).explain()
    assert re.search(r"ranges +\d+ .* +\d+\.\d\d% ", told)


def test_without_a_policy_columns_are_shown_and_what_comes_next() -> None:
    found = survey(open_source(pa.table(SMALL)))
    for text in (found.summary().text(80), found.explain()):
        told = " ".join(text.split())
        assert "disease text 3 0" in told
        assert "Next: `sfumato init TABLE --sensitive COLUMN -o policy.toml`" in told
    wide = survey(open_source(pa.table({f"c{k}": [1, 2] for k in range(40)}))).summary().text(80)
    assert "... and 30 more" in wide


@pytest.mark.parametrize(("counts", "l"), [((3, 3, 3), 3), ((4, 3, 3), 2), ((1, 1, 1, 1, 1), 5), ((5, 4), 1)])
def test_eligibility_is_exact(counts: tuple[int, ...], l: int) -> None:  # noqa: E741
    values = [f"v{k}" for k, count in enumerate(counts) for _ in range(count)]
    found = surveyed(pa.table({"disease": values}), policy(disease=role("sensitive")))
    assert found.sensitive is not None
    assert found.sensitive.eligible_l == l
    said = f"can reach l = {l} without suppression" if l > 1 else "cannot protect it without suppression"
    assert said in " ".join(found.explain().split())


def test_a_declared_domain_discloses_no_rare_value_and_shows_unused_ones() -> None:
    stated = policy(disease=role("sensitive", 'domain = ["flu", "hiv", "gout", "measles"]'))
    found = surveyed(pa.table({"disease": SMALL["disease"]}), stated).sensitive
    assert found is not None
    assert (found.rare, found.unused, found.values) == ((), 1, 4)


def test_rare_values_of_several_sensitive_columns_are_those_of_each() -> None:
    table = pa.table({"a": ["x"] * 6 + ["y"] * 4, "b": ["p", "q"] * 5})
    found = surveyed(table, policy(a=role("sensitive"), b=role("sensitive"))).sensitive
    assert found is not None
    assert [(r.column, r.value, r.records) for r in found.rare] == [("a", "y", 4)]  # no combination is published
    assert found.values == 4


def test_row_order_is_told_and_warned_of() -> None:
    table = pa.table({"disease": ["a"] * 200 + ["b"] * 200})
    found = surveyed(table, policy(disease=role("sensitive")))
    assert found.row_order is not None
    assert found.row_order.dependent
    assert found.row_order.statement in found.explain().replace("\n  ", " ")
    assert any("shuffled" in warning for warning in found.warnings)


def test_persons_are_counted_not_refused() -> None:
    table = pa.table({"patient": [1, 1, 1, 2, 3, 3], "disease": ["a", "b", "a", "b", "a", "b"]})
    rules = {"patient": role("identifier"), "disease": role("sensitive")}
    person = '[person]\ncolumn = "patient"\n'
    found = surveyed(table, policy(person, **rules))
    assert found.persons is not None
    assert (found.persons.persons, found.persons.with_several_rows, found.persons.most_rows) == (3, 2, 3)
    assert found.persons.mean_rows == 2
    assert any("Publishing would stop: 2 of 3 persons" in warning for warning in found.warnings)
    lenient = surveyed(table, policy(person + 'repeated = "keep-one"\n', **rules))
    assert not any("persons" in warning for warning in lenient.warnings)


def test_what_publishing_would_refuse_is_warned_of() -> None:
    stated = policy(
        age=role("quasi_identifier", 'domain = ["23"]'),
        sex=role("quasi_identifier"),
        note=role("identifier"),
        disease=role("sensitive"),
    )
    warnings = surveyed(pa.table(SMALL), stated).warnings
    assert any("'sex' is missing in 1 row" in w for w in warnings)
    assert any("'age' has 6 value(s) outside its declared domain" in w for w in warnings)


# --- predictors ---------------------------------------------------------------------------------------------


def planted(rows: int = 6_000) -> pa.Table:
    rng = np.random.default_rng(3)
    secret = rng.choice(8, rows, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
    return pa.table(
        {
            "ward": pa.array(secret // 2).cast(pa.string()),  # a coarse version of the secret
            "lab": secret + rng.random(rows),  # a number with a value of its own in every row
            "coin": rng.choice(["heads", "tails"], rows),
            "noise": rng.random(rows),
            "serial": np.arange(rows),
            "sex": rng.choice(["F", "M"], rows),
            "disease": pa.array(secret).cast(pa.string()),
        }
    )


def planted_policy() -> Policy:
    others = {name: role("other") for name in ("ward", "lab", "coin", "noise", "serial")}
    return policy(**others, sex=role("quasi_identifier"), disease=role("sensitive"))


def test_a_planted_predictor_is_found_and_independent_columns_are_not() -> None:
    found = surveyed(planted(), planted_policy())
    assert found.prediction is not None
    clear = {p.column: p.clear for p in found.prediction.predictors}
    assert clear == {name: name in ("ward", "lab") for name in ("ward", "lab", "coin", "noise", "serial", "sex")}
    ward = next(p for p in found.prediction.predictors if p.column == "ward")
    # the best guess in each ward: 0.3 + 0.15 + 0.1 + 0.05
    assert ward.hit_rate == pytest.approx(0.6, abs=0.03)
    assert ward.baseline == pytest.approx(0.3, abs=0.03)
    warning = next(w for w in found.warnings if "undo the blur" in w)
    assert "'ward'" in warning
    assert "'coin'" not in warning


def test_predictors_are_not_warned_of_among_the_quasi_identifiers() -> None:
    rules = {name: role("quasi_identifier") for name in ("ward", "lab", "coin", "noise", "serial", "sex")}
    found = surveyed(planted(), policy(**rules, disease=role("sensitive")))
    assert found.prediction is not None
    assert {p.column for p in found.prediction.predictors if p.clear} == {"ward", "lab"}
    assert not any("undo the blur" in w for w in found.warnings)


def test_a_csv_file_gives_the_same_prediction_as_parquet(tmp_path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(planted(), tmp_path / "t.csv")
    pq.write_table(planted(), tmp_path / "t.parquet")
    first = surveyed(tmp_path / "t.csv", planted_policy()).prediction
    assert first == surveyed(tmp_path / "t.parquet", planted_policy()).prediction


def slow_prediction(codes: list[int], secret: list[int], learn: list[int], test: list[int]) -> tuple[float, float]:
    """The rule with dictionaries; ties are broken by the smaller value, as nothing else depends on it."""
    overall = Counter(secret[i] for i in learn)
    mode = min(overall, key=lambda v: (-overall[v], v))
    seen: dict[int, Counter[int]] = {}
    for i in learn:
        seen.setdefault(codes[i], Counter())[secret[i]] += 1
    best = {code: max(counts.values()) for code, counts in seen.items()}
    unique_best = {c: [v for v, n in counts.items() if n == best[c]] for c, counts in seen.items()}
    assert all(len(values) == 1 for values in unique_best.values())
    right = [unique_best[codes[i]][0] == secret[i] if codes[i] in seen else mode == secret[i] for i in test]
    return float(np.mean(right)), float(np.mean([secret[i] == mode for i in test]))


def test_prediction_equals_a_slow_oracle() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 3_001)
    secret = np.where(rng.random(3_001) < 0.4, codes, rng.integers(0, 7, 3_001))
    codes[-1] = 9  # never learned
    order = np.arange(3_001)
    hit_rate, baseline, z = prediction(codes, secret, order[:1500], order[1500:])
    slow = slow_prediction(codes.tolist(), secret.tolist(), order[:1500].tolist(), order[1500:].tolist())
    assert (hit_rate, baseline) == slow
    assert z > 4


def test_information_equals_a_slow_oracle() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 3_001)
    secret = np.where(rng.random(3_001) < 0.4, codes, rng.integers(0, 7, 3_001))
    codes[-1] = 9  # never learned
    learn, test = list(range(1500)), list(range(1500, 3001))
    overall, together = Counter(secret[learn].tolist()), Counter(zip(codes[learn], secret[learn], strict=True))
    alone, values = Counter(codes[learn].tolist()), len(overall)
    gains = []
    for i in test:
        prior = (overall[secret[i]] + 1) / (1500 + 7)
        gains.append(math.log2((together[codes[i], secret[i]] + values * prior) / (alone[codes[i]] + values) / prior))
    bits, z = information(codes, secret, np.array(learn), np.array(test))
    assert bits == pytest.approx(np.mean(gains))
    assert z == pytest.approx(np.mean(gains) / (np.std(gains) / math.sqrt(1501)))
    assert gains[-1] == pytest.approx(0, abs=1e-12)


def test_a_column_that_shifts_the_odds_but_not_the_guess_is_seen() -> None:
    """As in Adult: income is low for most of every group, but ten times as often high for the married."""
    rng = np.random.default_rng(4)
    married, sex = rng.random(8_000) < 0.5, rng.random(8_000) < 0.5
    rich = rng.random(8_000) < np.where(married, 0.45, 0.05)
    names = {"married": married, "sex": sex, "income": rich}
    table = pa.table({name: np.where(values, "yes", "no") for name, values in names.items()})
    for kind in ("other", "quasi_identifier"):
        found = surveyed(table, policy(married=role(kind), sex=role("other"), income=role("sensitive")))
        assert found.prediction is not None
        by_name = {p.column: p for p in found.prediction.predictors}
        assert by_name["married"].hit_rate == by_name["married"].baseline
        assert by_name["married"].information == pytest.approx(0.17, abs=0.03)  # of the 0.81 of the marginal
        assert (by_name["married"].clear, by_name["sex"].clear) == (True, False)
        assert any("'married'" in w and "bits" in w for w in found.warnings) == (kind == "other")
        assert f"{by_name['married'].information:.3f}" in found.explain()
        plain = found.to_dict()["prediction"]["predictors"][0]
        assert list(plain) == [
            "column", "role", "hit_rate", "baseline", "z", "information", "information_z", "clear",
        ]  # fmt: skip
        json.dumps(plain, allow_nan=False)


def test_the_test_of_a_useless_column_keeps_its_level() -> None:
    """z > 4 must be rare by chance: none in 200 columns (a fair z would have 0.006 of them)."""
    rng = np.random.default_rng(8)
    order = np.arange(2_000)
    for _ in range(200):
        secret, codes = rng.integers(0, 3, 2_000), rng.integers(0, 20, 2_000)
        assert prediction(codes, secret, order[:1000], order[1000:])[2] < 4
        bits, z = information(codes, secret, order[:1000], order[1000:])
        assert z < 4
        assert bits < 0.05


def test_numbers_and_dates_are_cut_and_missing_values_are_a_value() -> None:
    numbers = pa.chunked_array([[None, *range(199)]])
    facts = survey(open_source(pa.table({"x": numbers}))).columns[0]
    codes = column_codes(numbers, facts)
    assert len(np.unique(codes)) == 51
    assert (codes == codes[0]).sum() == 1
    dates = numbers.cast(pa.int32()).cast(pa.date32())
    assert np.array_equal(column_codes(dates, facts), codes)


# --- the sample ---------------------------------------------------------------------------------------------


def test_the_sample_is_even_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", SURVEYED=1_000)
    rows = 25_300
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"place": np.arange(rows), "disease": np.arange(rows) % 3}), path, row_group_size=999)
    scanned = scan(path, policy(place=role("other"), disease=role("sensitive")))
    sample = PublishedRows(scanned.source, scanned.schema, ["place"]).sample(rows, lambda n: None)
    places = sample["place"].to_numpy()
    stride = -(-rows // 1_000)
    assert np.array_equal(places // stride, np.arange(-(-rows // stride)))  # one of each stretch, in order
    assert len(np.unique(places % stride)) > stride / 2  # not in step with a period


# --- feasibility and form -----------------------------------------------------------------------------------


def test_feasibility_has_the_policy_first_and_reasons_where_it_fails() -> None:
    table = pa.table({"disease": ["a"] * 60 + ["b"] * 30 + ["c"] * 10})
    found = surveyed(table, policy(disease=role("sensitive"))).feasibility
    assert found is not None
    assert found[0].from_policy
    assert found[0].requirement == "epsilon = 1.0"
    cases = {(c.method, c.requirement): c for c in found[1:]}
    assert set(cases) == {
        *(("uniform", f"epsilon = {e}") for e in ("0.5", "1", "2", "3")),
        *((method, f"tolerance = {t}") for t in (2, 3, 5, 10) for method in ("uniform", "fine-grain")),
        ("suppression", "l = 3"),
    }
    assert cases["suppression", "l = 3"].published_share == 0.3  # all three values down to 10 records
    one = cases["uniform", "epsilon = 1"]
    assert one.retention_low == pytest.approx((math.e - 1) / (2 + math.e), abs=1e-6)  # SDR Eq. (4)
    assert one.record_utility == pytest.approx(math.e / (2 + math.e), abs=1e-6)
    assert (one.invertible, one.reason) == (True, "")
    fine, uniform = (cases[method, "tolerance = 3"].record_utility for method in ("fine-grain", "uniform"))
    assert fine is not None
    assert uniform is not None
    assert fine >= uniform


def test_an_infeasible_policy_is_told_not_raised() -> None:
    stated = Policy.parse(
        '[columns.disease]\nrole = "sensitive"\n[method]\nname = "fine-grain"\nretention_floor = 0.9\n'
        "[requirement]\nepsilon = 1\n"
    )
    found = surveyed(pa.table({"disease": ["a", "b"] * 50}), stated)
    assert found.feasibility is not None
    assert "retention floor" in found.feasibility[0].reason
    assert found.feasibility[0].retention_low is None
    assert any("cannot be met" in w for w in found.warnings)
    assert "cannot be met" in found.explain()


def test_json_has_the_documented_keys() -> None:
    plain = json.loads(json.dumps(surveyed(pa.table(SMALL), small_policy()).to_dict(), allow_nan=False))
    assert list(plain) == [
        "table", "rows", "columns", "warnings", "uniqueness", "sensitive", "row_order", "prediction", "persons",
        "feasibility", "errors", "apart",
    ]  # fmt: skip
    assert list(plain["columns"][0]) == [
        "name", "type", "role", "distinct", "missing", "looks_missing", "missing_texts", "numbers", "whole", "low",
        "high",
    ]  # fmt: skip
    assert list(plain["sensitive"]) == [
        "columns", "records", "dropped", "values", "observed", "unused", "most_frequent", "largest_share", "entropy",
        "eligible_l", "rare", "ordered", "least_frequent",
    ]  # fmt: skip
    assert list(plain["feasibility"][0]) == [
        "method", "assurance", "requirement", "from_policy", "retention_low", "retention_high", "record_utility",
        "invertible", "total_variation", "sets", "published_share", "reason",
    ]  # fmt: skip
    assert list(plain["errors"][0]) == ["method", "gamma", "count", "share", "mean", "reason"]


def test_errors_are_those_of_plans_for_every_method_with_one_promise() -> None:
    rng = np.random.default_rng(12)
    numbers = pa.table({"income": rng.choice(np.arange(12) * 1000, 3_000, p=np.arange(12, 0, -1) / 78)})
    found = surveyed(numbers, policy(income=role("sensitive")))
    assert found.sensitive is not None
    assert found.sensitive.ordered
    assert found.errors is not None
    told: Any = {(e.method, e.gamma): e for e in found.errors}
    assert {method for method, gamma in told if gamma} == {"uniform", "subset", "ranges", "plateau"}
    assert "promises less" in told["geometric", None].reason
    counted = profile(scan(numbers, policy(income=role("sensitive"))))
    errors = Subset().plan(counted, Amplification(3)).figures.standard_error
    assert errors is not None
    off = told["subset", 3]
    assert off.count == pytest.approx(math.sqrt((errors**2).mean()))
    best = errors_of_sets(best_subset(3.0, 12), counted.counts / counted.rows)
    assert off.share == pytest.approx(math.sqrt(best.distribution / 3_000), rel=0.02)  # a deck, not all sets
    assert off.mean == pytest.approx(math.sqrt(best.mean / 3_000), rel=0.02)
    assert told["ranges", 3].share < told["subset", 3].share < told["uniform", 3].share
    assert told["subset", 3].count < told["ranges", 3].count < told["plateau", 3].count
    assert told["subset", 3].count < told["uniform", 3].count < told["plateau", 3].count
    assert f"{told['ranges', 4].share:.2%}" in found.explain()


def test_methods_that_do_not_apply_say_why_in_a_line() -> None:
    found = surveyed(pa.table({"disease": ["a", "b", "c"] * 50}), policy(disease=role("sensitive")))
    assert found.errors is not None
    assert found.sensitive is not None
    assert not found.sensitive.ordered
    why = {e.method: e.reason for e in found.errors if e.reason}
    assert set(why) == {"ranges", "plateau", "geometric"}
    assert set(why.values()) == {"'disease' holds texts such as 'a', 'b', which are in no order."}
    assert "ranges, plateau, geometric: 'disease' holds texts" in found.explain()
    assert "Share:" not in found.explain()


def test_progress_adds_up_to_the_rows_of_one_pass(tmp_path: Path) -> None:
    pq.write_table(planted(6_001), tmp_path / "t.parquet", row_group_size=500)
    told: list[int] = []
    surveyed(tmp_path / "t.parquet", planted_policy(), told)
    assert sum(told) == 6_001


def test_odd_names_are_no_obstacle() -> None:
    names = ['a "b"', "c.d", "e'f", "größe ; --", "line\nbreak"]
    table = pa.table({name: ["x", "y"] * 30 for name in names})
    columns = "".join(f"[columns.{json.dumps(name)}]\n{role('other')}\n" for name in names[1:-1])
    columns += f"[columns.{json.dumps(names[-1])}]\n{role('identifier')}\n"
    stated = Policy.parse(f"[columns.{json.dumps(names[0])}]\n{role('sensitive')}\n{columns}{METHOD}")
    found = surveyed(table, stated)
    assert [c.name for c in found.columns] == names
    assert "line\\nbreak" in found.explain()


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_no_temporary_file_is_left(leftovers: Path) -> None:
    surveyed(pa.table(SMALL), small_policy())
    assert list(leftovers.iterdir()) == []


def test_t2_the_survey_states_which_columns_of_a_csv_file_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("code,age,dose,name\n007,9,1.5,a\n012,10,2,b\n100,100,7.25,c\n")
    types = {column.name: column.type for column in survey(open_source(path)).columns}
    assert types == {"code": "text (codes)", "age": "text (whole numbers)", "dose": "text (numbers)", "name": "text"}
