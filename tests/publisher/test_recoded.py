"""Bins of dates and merged values: published, counted, refused and told of alike from every kind of table."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfumato.analyst.release import Release
from sfumato.auditor.audit import audit
from sfumato.errors import PolicyError, SfumatoError, TableError
from sfumato.methods import plan
from sfumato.publisher.publish import publish
from sfumato.publisher.survey import survey
from sfumato.publisher.table import profile, scan
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.engines.tools import released, rows_of
from tests.publisher.test_missing_and_bins import written

DAYS = [
    dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2018, 12, 31), dt.date(2019, 1, 1), dt.date(2020, 2, 29),
    dt.date(2020, 6, 30), dt.date(2020, 7, 1), dt.date(9999, 12, 31),
]  # fmt: skip
BINNED = {
    '"year"': ["1969", "1970", "2018", "2019", "2020", "2020", "2020", "9999"],
    '"quarter"': ["1969-Q4", "1970-Q1", "2018-Q4", "2019-Q1", "2020-Q1", "2020-Q2", "2020-Q3", "9999-Q4"],
    '"month"': ["1969-12", "1970-01", "2018-12", "2019-01", "2020-02", "2020-06", "2020-07", "9999-12"],
    '{ breaks = ["2019-01-01", "2020-07-01"] }': ["< 2019-01-01"] * 3
    + ["[2019-01-01, 2020-07-01)"] * 3
    + [">= 2020-07-01"] * 2,
}
TIMES = 20


@pytest.fixture(params=["arrow", "parquet", "csv"])
def kind(request: pytest.FixtureRequest) -> str:
    """Give each kind of table; tests/spark/test_shared.py gives another one."""
    return str(request.param)


def holds(release: Release) -> bool:
    return [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]


def table_of(values: list[Any], type: Any = None) -> pa.Table:
    """Return a table in which every value has rows; `which` tells them apart."""
    number = len(values)
    return pa.table(
        {
            "which": [f"w{k}" for k in range(number)] * TIMES,
            "x": pa.array(values * TIMES, type),
            "s": ["a", "b", "b"] * (number * TIMES // 3) + ["a"] * (number * TIMES % 3),
        }
    )


def published(
    values: list[Any], rule: str, kind: str, folder: Path, type: Any = None, role: str = "other"
) -> list[str]:
    """Return what is published of each value; all rows of one are published alike."""
    policy = make_policy({"which": "other", "x": f"{role}; {rule}", "s": "sensitive"})
    release = released(written(table_of(values, type), kind, folder), policy, folder=folder / "r")
    assert holds(release)
    pairs = Counter((which, x) for which, x, _ in rows_of(release))
    assert set(pairs.values()) == {TIMES}
    return [x for _, x in sorted(pairs, key=lambda pair: int(pair[0][1:]))]


# --- dates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", BINNED)
def test_dates_in_bins(kind: str, bins: str, tmp_path: Path) -> None:
    assert published(DAYS, f"bins = {bins}", kind, tmp_path) == BINNED[bins]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_in_bins(kind: str, zone: str | None, tmp_path: Path) -> None:
    """The last microsecond of a year is in it, in UTC: in Berlin the next one has begun."""
    day = dt.datetime(2019, 12, 31, 23, 59, 59, 999999)
    moments = [day, day + dt.timedelta(microseconds=1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
    kept = pa.array(moments, pa.timestamp("us", "UTC" if zone else None)).cast(pa.timestamp("us", zone)).to_pylist()
    found = published(kept, 'bins = "year"', kind, tmp_path, pa.timestamp("us", zone))
    assert found == (["2019", "2020", "1969"])


def test_breaks_are_dates_of_toml_or_texts(tmp_path: Path) -> None:
    found = published(DAYS, "bins = { breaks = [2019-01-01, 2020-07-01] }", "arrow", tmp_path)
    assert found == BINNED['{ breaks = ["2019-01-01", "2020-07-01"] }']


def test_missing_dates(kind: str, tmp_path: Path) -> None:
    values = [DAYS[0], None, DAYS[3]]
    found = published(values, "bins = 'year'; missing = 'category'", kind, tmp_path)
    assert found == ["1969", "(missing)", "2019"]
    (tmp_path / "drop").mkdir()
    assert published(values, "bins = 'year'; missing = 'drop'", kind, tmp_path / "drop") == ["1969", "2019"]


@pytest.mark.parametrize(
    ("rule", "domain", "observed"),
    [
        ("bins = 'year'", ("1969", "1970", "2018", "2019", "2020", "9999"), True),
        ("bins = 'quarter'", tuple(BINNED['"quarter"']), True),
        ("bins = { breaks = [1950-01-01, 2019-01-01, 2020-07-01] }", None, False),
        (
            "bins = 'year'; domain = [2018, '2019', 2020, 2021, 9999, 1969, 1970]",
            ("2018", "2019", "2020", "2021", "9999", "1969", "1970"),
            False,
        ),
    ],
)
def test_sensitive_dates(kind: str, rule: str, domain: Any, observed: bool, tmp_path: Path) -> None:
    """Breaks are a declared domain, whether a row has the bin or not; years that occur are read off the table."""
    table = written(table_of(DAYS), kind, tmp_path)
    policy = make_policy({"which": "other", "x": f"sensitive; {rule}", "s": "other"})
    release = released(table, policy, folder=tmp_path / "r")
    breaks = ("< 1950-01-01", "[1950-01-01, 2019-01-01)", "[2019-01-01, 2020-07-01)", ">= 2020-07-01")
    assert release.manifest.domain.labels == (domain or breaks)
    assert release.manifest.observed_domains == (("x",) if observed else ())
    assert release.count("x").value.sum() == pytest.approx(len(DAYS) * TIMES)
    assert holds(release)


# --- merging ----------------------------------------------------------------------------------------------------------

MERGED: dict[str, tuple[list[Any], str, list[str]]] = {
    "texts": (
        ["COPD", "asthma", "flu", "7", None],
        "merge = { respiratory = ['COPD', 'asthma'], other = ['7'] }; missing = 'category'",
        ["respiratory", "respiratory", "flu", "other", "(missing)"],
    ),
    "whole numbers": (
        [1, 2, 3, 10, -4],
        "merge = { low = [1, '2'], '-4' = [-4] }",
        ["low", "low", "3", "10", "-4"],
    ),
    "truth values": (
        [True, False, None],
        "merge = { yes = [true] }; missing = 'category'",
        ["yes", "false", "(missing)"],
    ),
    "a name that is one of its values": (["a", "b", "c"], "merge = { a = ['a', 'b'] }", ["a", "a", "c"]),
    "rows that are left out": (["a", None, "c"], "merge = { z = ['a'] }; missing = 'drop'", ["z", "c"]),
    "a value that never occurs": (["a", "b", "c"], "merge = { z = ['a', 'A'] }", ["z", "b", "c"]),
    "a declared domain": (["a", "b", "c"], "merge = { z = ['a', 'b'] }; domain = ['c', 'd', 'z']", ["z", "z", "c"]),
}


@pytest.mark.parametrize("case", MERGED)
@pytest.mark.parametrize("role", ["other", "quasi_identifier"])
def test_merged_values(kind: str, case: str, role: str, tmp_path: Path) -> None:
    values, rule, expected = MERGED[case]
    assert published(values, rule, kind, tmp_path, role=role) == expected


@pytest.mark.parametrize("case", MERGED)
def test_merged_sensitive_values(kind: str, case: str, tmp_path: Path) -> None:
    """The domain is that of the names and of what stays: observed, or declared."""
    values, rule, expected = MERGED[case]
    policy = make_policy({"which": "other", "x": f"sensitive; {rule}", "s": "other"})
    table = written(table_of(values), kind, tmp_path)
    release = released(table, policy, folder=tmp_path / "r")
    if "domain" in rule:
        assert release.manifest.domain.labels == ("c", "d", "z")
    else:
        assert set(release.manifest.domain.labels) == set(expected)
        assert release.manifest.observed_domains == ("x",)
    counted = profile(scan(table, policy))
    numbers = dict(zip(counted.domain.labels, counted.counts.tolist(), strict=True))
    assert numbers == {**dict.fromkeys(counted.domain.labels, 0), **Counter(expected * TIMES)}
    assert holds(release)


def test_learned_names_and_numbers_are_in_order(kind: str, tmp_path: Path) -> None:
    policy = make_policy({"which": "other", "x": "sensitive; merge = { low = [1, 2] }", "s": "other"})
    counted = profile(scan(written(table_of([10, 9, 1, 2, -3, 30]), kind, tmp_path), policy))
    assert counted.domain.labels == ("-3", "9", "10", "30", "low")


def test_the_manifest_tells_the_policy_not_the_table(tmp_path: Path) -> None:
    """Two tables, one of which lacks a value that is merged: what is said of the merging is the same."""
    rule = "merge = { respiratory = ['COPD', 'asthma'] }"
    for role, other in (("sensitive", "other"), ("other", "sensitive")):
        policy = make_policy({"which": "other", "x": f"{role}; {rule}", "s": other})
        parts = []
        for name, values in (("both", ["COPD", "asthma", "flu"]), ("one", ["asthma", "asthma", "flu"])):
            release = released(table_of(values), policy, folder=tmp_path / f"{name} {role}")
            manifest = release.manifest.model_dump()
            parts.append({key: manifest[key] for key in ("merged", "columns", "mechanisms", "guarantee")})
        assert parts[0] == parts[1]
        assert parts[0]["merged"] == {"x": {"respiratory": ("COPD", "asthma")}}
        assert [c["treatment"] for c in parts[0]["columns"]] == (
            ["untouched", "randomized", "untouched"] if role == "sensitive" else ["untouched", "merged", "randomized"]
        )


def _of_recoding(counted: Profile) -> list[str]:
    """Return the notes, without those that the tests' policies give reasons in."""
    return [note for note in counted.column_notes if "The policy says why" not in note]


def test_a_value_that_never_occurs_is_told_in_private(kind: str, tmp_path: Path) -> None:
    rules = {"which": "quasi_identifier; merge = { w = ['w0', 'W1'] }", "x": "other; merge = { z = ['a', 'b'] }"}
    policy = make_policy(dict(rules, s="sensitive; merge = { z = ['q', 'a', 'B'] }"))
    opened = scan(written(table_of(["a", "c", "d"]), kind, tmp_path), policy)
    counted = profile(opened)
    notes = [
        "merge of 's': 'q', 'B' never occur in the table. Is the spelling right?",
        "merge of 'which': 'W1' never occurs in the table. Is the spelling right?",
        "merge of 'x': 'b' never occurs in the table. Is the spelling right?",
    ]
    assert _of_recoding(counted) == notes
    made = plan(counted, policy.method, policy.requirement)
    assert set(notes) <= set(made.notes)
    assert all(note in made.explain() for note in notes)
    if kind != "spark":
        assert set(notes) <= set(survey(opened.source, opened).warnings)
    release = publish(opened, made, tmp_path / "r", key=SecretKey.from_seed(1))
    content = b"".join(path.read_bytes() for path in release.folder.rglob("*") if path.is_file())
    assert b"never occur" not in content


def test_a_zone_is_told_in_private(tmp_path: Path) -> None:
    table = table_of([dt.datetime(2019, 1, 1), dt.datetime(2020, 1, 1)], pa.timestamp("us", "Europe/Berlin"))
    policy = make_policy({"which": "other", "x": "other; bins = 'year'", "s": "sensitive"})
    assert _of_recoding(profile(scan(table, policy))) == ["The times of 'x' have a zone: its bins count days in UTC."]


@pytest.mark.parametrize("method", ["small-domain", "anatomy", "randomized-response", "robust-anatomy", "suppression"])
def test_recoded_columns_under_every_method(kind: str, method: str, tmp_path: Path) -> None:
    requirement, options = {
        "small-domain": ("rho1 = 0.3\nrho2 = 0.9", "minimum_sub_table = 20"),
        "anatomy": ("l = 2", ""),
        "suppression": ("l = 2", ""),
        "robust-anatomy": ("r = 2", "attribute_sets = [['day']]"),
        "randomized-response": ("risk_limit = 0.5", ""),
    }[method]
    table = pa.table(
        {
            "day": [DAYS[k % 8] for k in range(400)],
            "sex": ["F", "M", "X", None] * 100,
            "code": [7 if k % 8 < 2 else [7, 1, 2, 3, 4, 4][k % 6] for k in range(400)],
        }
    )
    policy = make_policy(
        {
            "day": "quasi_identifier; bins = { breaks = [2019-01-01] }",
            "sex": "quasi_identifier; merge = { other = ['X', 'D'] }; missing = 'category'",
            "code": "sensitive; merge = { low = [1, 2], none = [7] }",
        },
        requirement,
        method,
        "",
        options,
    )
    opened = scan(written(table, kind, tmp_path), policy)
    made = plan(profile(opened), policy.method, policy.requirement)
    release = publish(opened, made, tmp_path / "r", key=SecretKey.from_seed(1))
    rows, domains = release.to_arrow(), {part.name: part.values for part in release.manifest.domain.parts}
    codes = domains["code"] if "code" in domains else rows.column("code").to_pylist()
    assert set(codes) == {"3", "4", "low", "none"}
    assert set(rows.column("day").to_pylist()) == {"< 2019-01-01", ">= 2019-01-01"}
    assert set(rows.column("sex").to_pylist()) == {"F", "M", "other", None}
    assert release.manifest.merged == {
        "sex": {"other": ("X", "D")},
        "code": {"low": ("1", "2"), "none": ("7",)},
    }
    assert release.count(["sex", "code"]).value.sum() == pytest.approx(release.manifest.data.rows)
    if kind == "parquet":
        findings = {finding.attacker: finding for finding in audit(opened, release, seed=1).findings}
        assert findings["residue"].at_risk == 0


# --- what is refused, already by counting -----------------------------------------------------------------------------

VALUES = ["b", "a", "c"]
REFUSED: dict[str, tuple[list[Any], Any, str, str, str]] = {  # values, type, rule, message, hint
    "bins of numbers on dates": (
        DAYS,
        None,
        "bins = { width = 10 }",
        "'x' has bins of numbers, but holds values of type date32",
        '"year"',
    ),
    "bins of numbers on times": (
        [dt.datetime(2019, 1, 1)],
        pa.timestamp("us"),
        "bins = { breaks = [3] }",
        "but holds values of type timestamp",
        '"year"',
    ),
    "bins of numbers on truth values": (
        [True, False],
        None,
        "bins = { width = 1 }",
        "but holds values of type bool",
        "numbers first",
    ),
    "bins of dates on numbers": (
        [1, 2],
        None,
        "bins = 'month'",
        "'x' has bins of dates, but holds values of type int64",
        "width",
    ),
    "bins of dates on decimals": (
        [1.5, 2.5],
        None,
        "bins = { breaks = [2019-01-01] }",
        "holds values of type double",
        "width",
    ),
    "bins of dates on truth values": (
        [True, False],
        None,
        "bins = 'month'",
        "holds values of type bool",
        "dates first",
    ),
    "merging decimals": (
        [1.5, 2.5],
        None,
        "merge = { z = [1] }",
        "'x' merges values, but holds values of type double",
        "bins",
    ),
    "merging dates": (
        DAYS,
        None,
        "merge = { z = ['2019-01-01'] }",
        "'x' merges values, but holds values of type date32",
        "bins",
    ),
    "a word among whole numbers": (
        [1, 2],
        None,
        "merge = { z = ['one'] }",
        "'x' holds whole numbers, but its merge names 'one'",
        "as the table has them",
    ),
    "a padded number among whole numbers": (
        [1, 2],
        None,
        "merge = { z = ['01'] }",
        "names '01'",
        "as the table has them",
    ),
    "a word among truth values": (
        [True, False],
        None,
        "merge = { z = ['yes'] }",
        "'x' holds truth values, but its merge names 'yes'",
        "",
    ),
    "texts that are no dates": (
        ["2019-12-31", "31.12.2019", "2019-02-29"],
        None,
        "bins = 'year'",
        r"40 row\(s\) hold no date of the years 1 to 9999: '31.12.2019', '2019-02-29'; first in row 2\.",
        "2019-12-31",
    ),
    "texts that are no numbers": (
        ["3", "three"],
        None,
        "bins = { width = 2 }",
        r"20 row\(s\) hold no finite number: 'three'; first in row 2\.",
        "Mend",
    ),
    "a label as a text": (
        ["3", "[2, 4)"],
        None,
        "bins = { width = 2 }",
        r"20 row\(s\) hold no finite number: '\[2, 4\)'",
        "Mend",
    ),
    "a date beyond the calendar": (
        [2**30, 3],
        pa.date32(),
        "bins = 'year'",
        r"hold no date of the years 1 to 9999: '2941",
        "",
    ),
    "a name that the table has": (
        VALUES,
        None,
        "merge = { a = ['b', 'q'] }",
        r"'x' merges values into a name that 20 row\(s\) hold already: 'a'; first in row 2\.",
        r'"a" = ["b", "q", "a"]',
    ),
    "a name that the table has, declared": (
        VALUES,
        None,
        "merge = { a = ['b'] }; domain = ['a', 'c']",
        "hold already: 'a'",
        "another name",
    ),
    "a value outside the domain": (
        VALUES,
        None,
        "merge = { z = ['b'] }; domain = ['a', 'z']",
        r"1 value\(s\) outside its declared domain, in 20 row\(s\): 'c'",
        "Add them",
    ),
    "a year outside the domain": (
        DAYS,
        None,
        "bins = 'year'; domain = [2018, 2019, 2020]",
        r"3 value\(s\) outside its declared domain, in 60 row\(s\): '1969', '1970', '9999'",
        "Add them",
    ),
    "missing dates": (
        [DAYS[0], None],
        None,
        "bins = 'year'",
        r"'x' is missing in 20 row\(s\), first in row 2\.",
        "drop",
    ),
    "missing values": (
        ["a", None],
        None,
        "merge = { z = ['a'] }",
        r"'x' is missing in 20 row\(s\), first in row 2\.",
        "drop",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("role", ["other", "sensitive"])
def test_what_publishing_refuses_planning_refuses(case: str, role: str, tmp_path: Path) -> None:
    values, type, rule, message, hint = REFUSED[case]
    roles = {"which": "other", "x": f"{role}; {rule}", "s": "other" if role == "sensitive" else "sensitive"}
    with pytest.raises((PolicyError, TableError), match=message) as caught:
        profile(scan(table_of(values, type), make_policy(roles)))
    assert hint in caught.value.hint


@pytest.mark.parametrize("case", [case for case, (_, kind, rule, message, _) in REFUSED.items() if "row" in message])
def test_publishing_itself_refuses_in_the_same_words(case: str, tmp_path: Path) -> None:
    """The plan is of a table without the bad values; the one that is published has them."""
    values, type, rule, message, _ = REFUSED[case]
    policy = make_policy({"which": "other", "x": f"other; {rule}", "s": "sensitive"})
    good = "2019-12-31" if "date" in case else "3" if "number" in case or "label" in case else "b"
    good = DAYS[3] if case in ("a year outside the domain", "missing dates") else good
    made = plan(profile(scan(table_of([good] * len(values), type), policy)), policy.method, policy.requirement)
    with pytest.raises(SfumatoError, match=message):
        publish(scan(table_of(values, type), policy), made, tmp_path / "r", key=SecretKey.from_seed(1))
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("bins = 'yearly'", r"""columns.x.bins: bins are "year", "quarter" or "month" .*; not 'yearly'"""),
        ("bins = 10", "not 10"),
        ("bins = { breaks = ['2019'] }", "'2019' is no date: breaks are numbers, or dates like 2019-01-01"),
        ("bins = { breaks = ['2019-02-29'] }", "'2019-02-29' is no date"),
        ("bins = { breaks = ['20190101'] }", "'20190101' is no date"),
        ("bins = { breaks = [2019-01-01T00:00:00] }", "is no date"),
        ("bins = { breaks = [2019-01-01, 5] }", "breaks are all numbers, or all dates"),
        ("bins = { breaks = ['18', '65'] }", "'18' is no date"),
        ("bins = { breaks = [2020-01-01, 2019-01-01] }", "breaks must be ascending"),
        ("bins = { breaks = [2019-01-01], width = 3 }", "a width and an origin are for numbers"),
        ("bins = { breaks = [] }", "give either a width or breaks"),
        ("bins = 'year'; domain = ['2019-01']", "domain: '2019-01' is no year"),
        ("bins = 'quarter'; domain = ['2019-Q5']", "domain: '2019-Q5' is no quarter"),
        ("bins = 'month'; domain = ['2019-13']", "domain: '2019-13' is no month"),
        ("bins = { breaks = [2019-01-01] }; domain = ['< 2019']", "domain: no bin is called '< 2019'"),
        ("bins = 'year'; merge = { a = ['b'] }", "bins and merge do not go together"),
        ("bins = 'year'; type = 'text'", "type does not go with merge or bins of dates"),
        ("merge = { a = ['b'] }; type = 'number'", "type does not go with merge or bins of dates"),
        ("merge = { a = ['b'], c = ['d', 'b'] }", "'x': merge: 'b' is named twice"),
        ("merge = { a = ['b', 'b'] }", "'b' is named twice"),
        ("merge = { a = [1, '1'] }", "'1' is named twice"),
        ("merge = { a = [true, 'true'] }", "'true' is named twice"),
        ("merge = { a = ['b'], b = ['c'] }", "'b' is a name, and is itself merged into 'a'"),
        ("merge = { a = [] }", "needs a name and values"),
        ("merge = { '' = ['a'] }", "needs a name and values"),
        ("merge = { }", "no value is named"),
        ("merge = { a = 'b' }", "merge takes new names with lists of values"),
        ("merge = ['a', 'b']", "merge takes new names with lists of values"),
        ("merge = { a = [1.5] }", "merge takes texts, whole numbers and truth values, not 1.5"),
        ("merge = { '(missing)' = ['a'] }", "how a missing value is written"),
        ("merge = { a = ['b', 'c'] }; domain = ['a', 'b']", "domain: 'b' is merged into 'a', and is not published"),
        ("merge = { a = ['b', 'c'] }; domain = ['d']", "domain: 'a' is missing, into which 'b', 'c' are merged"),
    ],
)  # fmt: skip
def test_a_policy_that_makes_no_sense(rule: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        make_policy({"x": f"other; {rule}", "s": "sensitive"})
    assert "union" not in caught.value.message
    assert caught.value.message.count("columns.x") <= 1
