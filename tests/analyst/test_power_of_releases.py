"""Expectations of real releases: equal to sums over the rows with dense matrices, and to what is then answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.answer import Target
from sfumato.analyst.power import Power, power
from sfumato.analyst.release import Release
from sfumato.errors import SingularMatrix, UsageError
from sfumato.publisher.policy import Policy
from sfumato.values.arrays import FloatArray
from tests.analyst.test_compound import compound
from tests.engines.tools import released

ROWS = 4000
VALUES = {"uniform": 12, "fine-grain": 12, "small-domain": 30}
STRICTER = "".join(
    f"\n[[requirement.values]]\nvalue = '{job}'\nrho1 = '1/10'\nrho2 = '{rho2}'\n"
    for job, rho2 in (("job 01", "1/4"), ("job 04", "2/5"))
)
Row = dict[str, Any]
Kleene = bool | None


def workers(values: int, rows: int = ROWS) -> pa.Table:
    """Return a table with values of unequal frequency, the rarest one missing."""
    rng = np.random.default_rng(3)
    jobs = [f"job {k:02}" for k in range(values - 1)] + [None]
    weights = 1 / np.arange(1, values + 1) ** 0.7
    sex = rng.choice(np.array(["F", "M", None], dtype=object), rows, p=[0.5, 0.45, 0.05])
    return pa.table(
        {
            "sex": sex.tolist(),
            "age": rng.integers(18, 80, rows).tolist(),
            "job": [jobs[k] for k in rng.choice(values, rows, p=weights / weights.sum())],
        }
    )


def policy(
    method: str, requirement: str = "rho1 = '1/5'\nrho2 = '1/2'\n", stricter: str = "", weights: str = "equal"
) -> Policy:
    more = {"small-domain": "minimum_sub_table = 300", "fine-grain": f"weights = '{weights}'"}.get(method, "")
    return Policy.parse(
        "[columns.sex]\nrole = 'other'\nmissing = 'category'\n[columns.age]\nrole = 'other'\n"
        "[columns.job]\nrole = 'sensitive'\nmissing = 'category'\n"
        f"[method]\nname = '{method}'\n{more}\n[requirement]\n{requirement}{stricter}"
    )


@pytest.fixture(scope="module", params=VALUES)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    method = request.param
    asked = policy(method, stricter=STRICTER if method == "fine-grain" else "")
    made = released(workers(VALUES[method]), asked, folder=tmp_path_factory.mktemp(method) / "r", shuffle=False)
    tables = made.manifest.mechanism_values[0].tables
    assert (len(tables) > 1) == (method == "small-domain")
    assert tables[0].matrix.is_uniform == (method != "fine-grain")
    return made


# --- the reference: sums over the rows, with dense inverses -----------------------------------------------------------


def equals(a: Any, b: Any) -> Kleene:
    return None if a is None else a == b


def either(a: Kleene, b: Kleene) -> Kleene:
    return True if a is True or b is True else None if a is None or b is None else False


Test = Callable[[Row, Any], Kleene]
CONDITIONS: dict[str, tuple[Callable[[Row], bool], Test]] = {
    "": (lambda row: True, lambda row, job: True),
    "age > 40": (lambda row: row["age"] > 40, lambda row, job: True),
    "job = 'job 02'": (lambda row: True, lambda row, job: equals(job, "job 02")),
    "job IS NULL AND sex = 'F'": (lambda row: row["sex"] == "F", lambda row, job: job is None),
    "age < 60 AND job IN ('job 00', 'job 01', 'job 04', 'job 07')": (
        lambda row: row["age"] < 60,
        lambda row, job: None if job is None else job in ("job 00", "job 01", "job 04", "job 07"),
    ),
    "job = 'job 04' OR sex = 'F'": (
        lambda row: True,
        lambda row, job: either(equals(job, "job 04"), equals(row["sex"], "F")),
    ),
}


def spread(release: Release) -> list[FloatArray]:
    """Return the corrected shares of each sub-table's values, not negative (the threshold by bisection)."""
    mechanism, rows = release.manifest.mechanism_values[0], release.to_arrow().to_pylist()
    found = []
    for number, table in enumerate(mechanism.tables, start=1):
        published = Counter(mechanism.domain.index[r["job"]] for r in rows if r.get("sub_table", 1) == number)
        o = np.array([published[code] for code in table.codes.tolist()], dtype=float)
        x = np.linalg.inv(table.matrix.dense()) @ o
        low, high = x.min() - o.sum(), x.max()
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(x - middle, 0).sum() > o.sum() else (low, middle)
        x = np.maximum(np.maximum(x - high, 0), 0.5)
        found.append(x / x.sum())
    return found


def reference(
    release: Release, by: list[str], condition: str, target: Target
) -> dict[tuple[Any, ...], tuple[float, float, float, float]]:
    """Return rows, share, and the variances of count and share of each group and cell, summed over the rows."""
    mechanism, shares = release.manifest.mechanism_values[0], spread(release)
    values, total = mechanism.domain.values, release.manifest.data.rows
    inside, test = CONDITIONS[condition]
    plain = [name for name in by if name != "job"]
    kinds: dict[tuple[Any, ...], Counter[tuple[int, tuple[bool, ...]]]] = {}
    for row in release.to_arrow().to_pylist():
        if inside(row):
            kind = row.get("sub_table", 1) - 1, tuple(test(row, job) is True for job in values)
            kinds.setdefault(tuple(row[name] for name in plain), Counter())[kind] += 1
    found: dict[tuple[Any, ...], tuple[float, float, float, float]] = {}
    for group, rows in kinds.items():
        for cell in values if "job" in by else ["all"]:
            x = variance = 0.0
            for (number, selected), count in rows.items():
                table, share = mechanism.tables[number], shares[number]
                phi = np.array([selected[c] and cell in ("all", values[c]) for c in table.codes.tolist()], dtype=float)
                dense = table.matrix.dense()
                a = np.linalg.inv(dense).T @ phi
                x += count * float(share @ phi)
                variance += count * float((dense @ share) @ a**2 - share @ phi)
            n = rows.total()
            more = (0.0, 0.0) if target == "table" else (x - x**2 / total, x - x**2 / n)
            count_variance, share_variance = (variance + part for part in more)
            names = iter(group)
            key = tuple(cell if name == "job" else next(names) for name in by)
            found[key] = n, x / n, count_variance, share_variance / n**2
    return found


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("by", [[], ["sex"], ["job"], ["job", "sex"]], ids=lambda by: ",".join(by) or "all")
def test_expectations_equal_the_reference(release: Release, by: list[str], target: Target) -> None:
    for condition in CONDITIONS:
        found, due = power(release, by, condition, target=target), reference(release, by, condition, target)
        assert set(found.groups) <= set(due)
        for group, n, share, error, share_error in zip(
            found.groups, found.records, found.share, found.standard_error, found.share_error, strict=True
        ):
            figures = n, share, error**2, share_error**2
            assert figures == pytest.approx(due[group], rel=1e-8, abs=1e-9), (condition, group)


def test_the_groups_are_those_of_the_answer(release: Release) -> None:
    for condition in CONDITIONS:
        where = f"WHERE {condition}" if condition else ""
        answer = release.sql(f"SELECT sex, job, COUNT(*) FROM release {where} GROUP BY sex, job")
        assert power(release, ["sex", "job"], condition).groups == answer.groups


def test_the_error_of_the_whole_release_is_the_one_that_is_answered(release: Release) -> None:
    """What is assumed of the release is what it answers, so the errors are the same where nothing was projected."""
    answers = release.count("job"), release.count("job", target="population")
    whole = len(release.manifest.mechanism_values[0].tables) == 1
    assert (answers[0].value > 0.5).all() or not whole
    for answer, scale in zip(answers, (1, np.sqrt(1 - 1 / ROWS)), strict=True):
        found = power(release, "job", target=answer.target)
        assert found.standard_error == pytest.approx(answer.standard_error * scale, rel=1e-9 if whole else 0.1)


# --- given shares, widths, levels -------------------------------------------------------------------------------------


def test_a_given_share_and_width(release: Release) -> None:
    found = power(release, ["sex", "job"], share=0.03, width=0.01, level=0.9)
    assert found.share == pytest.approx(np.full(len(found.groups), 0.03))
    assert found.records_for_width is not None
    assert found.records_for_width / found.records == pytest.approx((found.share_half_width / 0.01) ** 2, rel=1e-2)
    seen = found.records_to_see <= found.records
    assert seen.tolist() == (found.least_share <= 0.03 * (1 + 1e-9)).tolist()
    wide = power(release, ["sex", "job"], share=0.03, level=0.99, chance=0.95)
    assert (wide.records_to_see > found.records_to_see).all()
    assert (wide.half_width > found.half_width).all()


def test_the_share_depends_on_no_published_value(release: Release) -> None:
    """A group is assumed to be like the release: exactly with one matrix, and given its rows in the sub-tables."""
    tables = release.manifest.mechanism_values[0].tables
    by = ["sex", "job"] if len(tables) == 1 else ["sub_table", "sex", "job"]
    found = power(release, by)
    shares: dict[tuple[Any, ...], list[float]] = {}
    for group, share in zip(found.groups, found.share, strict=True):
        shares.setdefault((*group[:-2], group[-1]), []).append(float(share))
    assert max(map(len, shares.values())) == 3
    assert max(np.ptp(of_cell) for of_cell in shares.values()) < 1e-12


def test_sub_tables_that_do_not_hold_a_value(release: Release) -> None:
    mechanism = release.manifest.mechanism_values[0]
    if len(mechanism.tables) == 1:
        assert not any("Sub-tables" in note for note in power(release, "job").notes)
        return
    found = power(release, ["sub_table", "job"], share=0.1)
    for (number, job), share, error, least in zip(
        found.groups, found.share, found.standard_error, found.least_share, strict=True
    ):
        held = mechanism.domain.index[job] in mechanism.tables[number - 1].codes
        assert share == pytest.approx(0.1 if held else 0)
        assert (error > 0) == held
        assert not np.isnan(least) or not held
    assert any("Sub-tables" in note for note in found.notes)
    assert any("nearest that it can have" in note for note in found.notes)


# --- notes ------------------------------------------------------------------------------------------------------------


def has_note(found: Power, text: str) -> bool:
    return any(text in note for note in found.notes)


def test_notes_say_what_is_assumed(release: Release) -> None:
    plain, values = power(release, "job"), release.manifest.mechanism_values[0].domain.size
    assert has_note(plain, "the 95% interval of its count lies above 0, here with a chance of 80%")
    assert has_note(plain, "that it has in the whole release")
    assert has_note(plain, "For the given table")
    assert not has_note(plain, "Rough")
    other = power(release, "job", "age = 33", share=0.04, target="population")
    assert has_note(other, "the share 0.04 of the group's rows")
    assert has_note(other, "random sample")
    assert has_note(other, f"Rough for {values} of the {values} figures")


def test_untouched_columns_alone_are_exact(release: Release) -> None:
    found = power(release, "sex", "age > 40")
    assert found.standard_error.tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert has_note(found, "exact for the table")
    population = power(release, "sex", "age > 40", target="population")
    n = release.manifest.data.rows
    estimated = release.count("sex", "age > 40", target="population").standard_error  # of a sample: n/(n - 1)
    assert population.standard_error == pytest.approx(estimated * np.sqrt((n - 1) / n))


# --- other releases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_one_column_of_a_compound(format: str, tmp_path: Path) -> None:
    """A cell then joins several values: by one column or by a condition on it, the expectation is the same."""
    made = compound("ab", tmp_path / "r", format=format)
    by_a = power(made, ["a", "group"])
    answer = made.count(["a", "group"])
    assert by_a.groups == answer.groups
    assert by_a.standard_error == pytest.approx(answer.standard_error, rel=0.15)
    value = by_a.groups[0][0]
    alone = power(made, "group", f"a = '{value}'")
    chosen = [k for k, group in enumerate(by_a.groups) if group[0] == value]
    assert alone.standard_error == pytest.approx(by_a.standard_error[chosen])
    assert alone.least_share == pytest.approx(by_a.least_share[chosen])


def test_groups_that_are_not_a_number(tmp_path: Path) -> None:
    real = [float("nan"), 1.5, float("inf")] * 40
    table = pa.table({"real": real, "s": ["a", "b"] * 60})
    text = "[columns.real]\nrole = 'other'\n[columns.s]\nrole = 'sensitive'\n[method]\nname = 'uniform'\n"
    made = released(table, Policy.parse(text + "[requirement]\ngamma = 3\n"), folder=tmp_path / "r")
    found = power(made, ["real", "s"])
    assert found.records.tolist() == [40.0] * 6
    assert len(found.rows()) == found.to_arrow().num_rows == 6


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "where", "options", "complaint"),
    [
        ("jbo", "", {}, "no column 'jbo'.\nDid you mean 'job'"),
        (["job", "job"], "", {}, "more than once"),
        ("job", "wage > 3", {}, "no column 'wage'"),
        ("job", "age > 200", {}, "No published row"),
        ("sex", "job = 'job 99'", {}, "No value of 'job' satisfies the condition.\nIts values are job 00, job 01"),
        ("job", "age >", {}, "cannot be read"),
        ("job", "(" * 3000 + "age > 3" + ")" * 3000, {}, "nested too deeply|cannot be read"),
        ("job", "job = sex", {}, "with another one"),
        ("job", "age = 'x'", {}, "'age' holds numbers, and 'x' is none"),
        ("job", "", {"share": 0}, "above 0 and at most 1, not 0"),
        ("job", "", {"share": 1.01}, "at most 1, not 1.01"),
        ("job", "", {"share": float("nan")}, "not nan"),
        ("job", "", {"width": 0}, "above 0, not 0"),
        ("job", "", {"width": float("inf")}, "above 0, not inf"),
        ("job", "", {"level": 1}, "level must lie between 0 and 1"),
        ("job", "", {"target": "sample"}, "table or a population"),
        ("job", "", {"chance": 0.4}, "at least 0.5 and below 1, not 0.4"),
        ("job", "", {"chance": 1.0}, "below 1, not 1.0"),
    ],
)
def test_what_cannot_be_expected_is_said(
    release: Release, by: Any, where: str, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        power(release, by, where, **options)


def test_a_matrix_without_an_inverse_is_refused(tmp_path: Path) -> None:
    stricter = "".join(
        f"\n[[requirement.values]]\nvalue = '{job}'\nrho1 = '1/10'\nrho2 = '1/5'\n" for job in ("job 01", "job 02")
    )
    records = "observed'\nobjective = 'records"
    made = released(workers(4, 300), policy("fine-grain", stricter=stricter, weights=records), folder=tmp_path / "r")
    with pytest.raises(SingularMatrix, match="has no inverse") as raised:
        power(made, "job")
    with pytest.raises(SingularMatrix) as answered:
        made.count("job")
    assert str(raised.value) == str(answered.value)
