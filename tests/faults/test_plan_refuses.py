"""Whatever `publish` refuses of a table and a policy, `plan` refuses too, in the same words."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import run

N = 60
POLICY = """
[columns.name]
role = "identifier"
[columns.age]
role = "quasi_identifier"
[columns.town]
role = "other"
[columns.illness]
role = "sensitive"
[method]
name = "uniform"
[requirement]
rho1 = 0.3
rho2 = 0.7
"""


def patients(**more: object) -> pa.Table:
    columns = {
        "name": [f"p{k}" for k in range(N)],
        "age": [20 + k % 20 for k in range(N)],
        "town": [("hill", "lake", "mill")[k % 3] for k in range(N)],
        "illness": [("flu", "gout", "HIV", "asthma")[k % 4] for k in range(N)],
    }
    return pa.table(columns | more)


def with_hole(values: list[object]) -> list[object]:
    return [None, *values[1:]]


DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in range(N)]
GROUPS = POLICY.replace('"uniform"', '"anatomy"').replace("rho1 = 0.3\nrho2 = 0.7", "l = 2")
RESPONSE = POLICY.replace('"uniform"', '"randomized-response"').replace("rho1 = 0.3\nrho2 = 0.7", "risk_limit = 0.9")
CASES: dict[str, tuple[pa.Table, str]] = {
    "a missing quasi-identifier": (patients(age=with_hole(list(range(20, 20 + N)))), POLICY),
    "a missing other value": (patients(town=[None] * 3 + ["hill"] * (N - 3)), POLICY),
    "a missing other value, in groups": (patients(town=[None] * 3 + ["hill"] * (N - 3)), GROUPS),
    "a missing other value, response": (patients(town=[None] * 3 + ["hill"] * (N - 3)), RESPONSE),
    "a missing secret": (patients(illness=with_hole(["flu", "gout"] * 30)), POLICY),
    "bins on text": (patients(), POLICY.replace('role = "other"', 'role = "other"\nbins = { width = 10 }')),
    "bins on dates": (patients(town=DAYS), POLICY.replace('role = "other"', 'role = "other"\nbins = { width = 10 }')),
    "a year of numbers": (patients(), POLICY.replace('role = "quasi', 'bins = "year"\nrole = "quasi')),
    "a value outside a declared domain": (
        patients(),
        POLICY.replace('role = "other"', 'role = "other"\ndomain = ["hill", "lake"]'),
    ),
    "a column of lists": (patients(town=[["hill"]] * N), POLICY),
    "a person twice": (patients(name=["p"] * N), 'person = { column = "name" }\n' + POLICY),
    "a person without a number": (
        patients(name=with_hole([f"p{k}" for k in range(N)])),
        'person = { column = "name" }\n' + POLICY,
    ),
    "names": (patients(town=[f"{k} High Street" for k in range(N)]), POLICY),
    "notes as the secret": (patients(illness=[f"note {k}" for k in range(N)]), POLICY),
    "one secret only": (patients(illness=["flu"] * N), POLICY),
    "no rows": (patients().slice(0, 0), POLICY),
    "sorted rows whose order is kept": (
        patients(illness=["flu"] * 30 + ["gout"] * 30),
        POLICY + '[output]\norder = "keep"\n',
    ),
    "a limit that cannot be kept": (patients(), GROUPS.replace("l = 2", "l = 9")),
    "a column that the policy lacks": (patients(extra=[1] * N), POLICY),
    "fine": (patients(), POLICY),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_t3_7_plan_refuses_whatever_publish_refuses(case: str, kind: str, tmp_path: Path) -> None:
    table, policy = CASES[case]
    if kind == "csv" and case == "a column of lists":
        pytest.skip("no CSV file has one")
    path = tmp_path / f"t.{kind}"
    pq.write_table(table, path) if kind == "parquet" else csv.write_csv(table, path)
    check(path, policy, case == "fine")


@pytest.mark.parametrize(
    ("old", "new"),
    [("hill", '"hill'), ("hill", "hill,lake"), ("hill", "h\udcffll"), ("p59,", "p59")],
    ids=["an open quote", "a field too many", "no UTF-8", "a field too few"],
)
def test_t3_7_lines_that_cannot_be_read(old: str, new: str, tmp_path: Path) -> None:
    csv.write_csv(patients(), tmp_path / "t.csv", csv.WriteOptions(quoting_style="none"))
    text = (tmp_path / "t.csv").read_text()
    at = text.rindex(old)
    broken = text[:at] + new + text[at + len(old) :]
    (tmp_path / "t.csv").write_bytes(broken.encode(errors="surrogateescape"))
    check(tmp_path / "t.csv", POLICY, False)


def check(path: Path, policy: str, fine: bool) -> None:
    (path.parent / "policy.toml").write_text(policy)
    stated = (str(path), str(path.parent / "policy.toml"))
    published, planned = run("publish", *stated, "-o", str(path.parent / "r")), run("plan", *stated)
    assert (published[0] == 0) == fine
    assert planned[0] == published[0], planned[2]
    assert planned[2] == published[2]
