"""One table, published on both engines by the same key: what is compared, and the table that makes it hard."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.methods.plan import Plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import scan_on_spark
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.engines import tools
from tests.engines.tools import listing, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = SecretKey.from_seed(5)
SETS = 'attribute_sets = [["sex"], ["sex", "re.gion"]]\n'
METHODS: dict[str, tuple[str, str, str]] = {  # by name, and what of it: the sensitive column, requirement, options
    "uniform": ("disease", "rho1 = 0.2\nrho2 = 0.5", ""),
    "subset, sets": ("job `x`", "gamma = 3", 'form = "set"'),
    "subset, cards": ("job `x`", "gamma = 3", 'form = "card"'),
    "fine-grain": ("disease", "rho1 = 0.2\nrho2 = 0.5", ""),
    "small-domain": ("job `x`", 'rho1 = "1/5"\nrho2 = "1/2"', "minimum_sub_table = 200"),
    "randomized-response": ("disease", "risk_limit = 0.41", ""),
    "anatomy": ("disease", "l = 2", ""),
    "suppression": ("disease", "l = 3", ""),
    "robust-anatomy": ("disease", "r = 2", SETS),
}
BY_GROUPS = ("anatomy", "suppression", "robust-anatomy")
FILES = {"sub/z.parquet": 700, "sub-1.parquet": 400, "a b%20[1].parquet": 900, "empty.parquet": 0, "é#?.parquet": 400}
"""Paths in the table's folder, with their rows. By parts, not as texts, sub/z.parquet comes before sub-1.parquet."""


def hard_table(rows: int = 2400) -> pa.Table:
    """Return a table with columns of many types and odd names; n tells rows apart."""
    rng = np.random.default_rng(8)

    def column(values: list[Any], kind: Any = None) -> Any:
        return pa.array([values[k] for k in rng.integers(0, len(values), rows)], kind)

    jobs = rng.choice(30, rows, p=(weights := 1 / np.arange(1, 31) ** 0.7) / weights.sum())
    moments = [dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(1900, 1, 1), None]
    return pa.table(
        {
            "name": [f"person {k}" for k in range(rows)],
            "n": rng.permutation(rows),
            "sex": column(["F", "M", "M"]),
            "re.gion": column(["north", "south"]),
            "job `x`": [f"job {k:02}" for k in jobs],
            "disease": rng.choice(["asthma", "flu", "gout", "mumps"], rows, p=[0.4, 0.3, 0.2, 0.1]).tolist(),
            "Pay €": column([1.5, 19.99, float("nan"), 20.0, None, -3.0]),
            "grade": column([1, 2, 3, None], pa.int8()),
            "ward": column(["x", None, "ÿ\U0001f600"]).dictionary_encode(),
            "text": column(["", "a", None, "long " * 9], pa.large_string()),
            "flag": column([True, False, None]),
            "real": column([0.1, float("nan"), -0.0, None], pa.float32()),
            "price": column([Decimal("1.50"), Decimal("-0.25"), None]),
            "day": column([dt.date(1969, 12, 31), dt.date(2024, 2, 29), None]),
            "moment": column(moments, pa.timestamp("us")),
            "zone": column(moments, pa.timestamp("us", "UTC")),
        }
    )


def hard_policy(method: str, gaps: str = "category") -> Policy:
    """Return a policy for the table. gaps: what a missing grade means; "drop" leaves rows out."""
    sensitive, requirement, options = METHODS[method]
    keep = dict.fromkeys(hard_table(1).column_names, "other; missing = 'category'")
    roles = keep | {
        "name": "identifier",
        "n": "other",
        "sex": "quasi_identifier",
        "re.gion": "quasi_identifier",
        "Pay €": "other; missing = 'category'; bins = { width = 20 }",
        "grade": f"other; missing = '{gaps}'; domain = [3, 2, 1]",
        sensitive: "sensitive",
    }
    return make_policy(roles, requirement, method.partition(",")[0], "", options)


def stored(table: pa.Table, folder: Path, files: Mapping[str, int] | None = None, row_group: int = 101) -> Path:
    """Write the rows to files in the order in which a folder is read, with small row groups; return the folder."""
    files, start = files or {"t.parquet": table.num_rows}, 0
    for name in sorted(files, key=lambda name: (folder / name).parts):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(start, files[name]), path, row_group_size=row_group)
        start += files[name]
    return folder


@contextmanager
def settings(spark: SparkSession, **values: Any) -> Iterator[None]:
    """Set settings of the session for a while, named without "spark.sql." and with _ for dots; they must stay so."""
    named = {"spark.sql." + name.replace("_", "."): str(value) for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in named}
    for name, value in named.items():
        spark.conf.set(name, value)
    everything = spark.conf.getAll
    try:
        yield
        assert spark.conf.getAll == everything
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def planned(table: sf.Table, shuffle: bool | None = None) -> Plan:
    """Count and plan as the policy asks; `shuffle` overrules it."""
    return tools.planned(table, shuffle, KEY if table.policy.method.name in BY_GROUPS else None)


def on_both(
    path: Path, policy: Policy, spark: SparkSession, folder: Path, shuffle: bool | None = None, key: SecretKey = KEY
) -> tuple[Release, Release]:
    """Publish on one machine, and the same plan on Spark."""
    here, there = sf.scan(path, policy), scan_on_spark(path, policy, spark)
    plan = planned(here, shuffle)
    releases = tuple(sf.publish(t, plan, folder / name, key=key) for t, name in ((here, "embedded"), (there, "spark")))
    return releases[0], releases[1]


def check_same(one: Release, other: Release) -> None:
    """Both releases tell the same; the second one is of many files, and nothing else is in its folder."""
    for name, said in shown(one).items():
        assert shown(other)[name] == said, f"{name}: {shown(other)[name]} != {said}"
    if not other.manifest.data.shuffled:
        assert rows_of(one) == rows_of(other)
    assert Counter(rows_of(one)) == Counter(rows_of(other))
    if one.manifest.groups:
        assert one.groups_to_arrow().to_pylist() == other.groups_to_arrow().to_pylist()
    assert [c.name for c in other.verify().checks if c.status == "fails"] == ["secret key"]
    parts = [f"data/{part.file}" for part in other.manifest.data.parts or ()]
    if other.manifest.groups:
        parts += [f"groups/{part.file}" for part in other.manifest.groups.parts or ()]
    folders = {part.split("/")[0] for part in parts}
    assert listing(other.folder) == sorted(["README.md", "manifest.json", *folders, *parts])


def shown(release: Release) -> dict[str, Any]:
    """Return what a manifest says but for names, checksums and the order of rows."""
    content = release.manifest.model_dump()
    for name in ("release_id", "readme_sha256"):
        del content[name]
    for part in (content["data"], content["groups"] or {}):
        for name in ("file", "sha256", "parts", "shuffled"):
            part.pop(name, None)
    content["guarantee"]["limits"] = [
        limit for limit in content["guarantee"]["limits"] if "table's order" not in limit and "pieces" not in limit
    ]
    return content


def same_error(
    path: Path, policy: Policy, spark: SparkSession, folder: Path, plan: Plan | None = None
) -> sf.SfumatoError:
    """Publish on both engines, which raise the same and leave nothing; return what Spark's raises."""
    raised, before = [], listing(folder)
    for opened in (sf.scan(path, policy), scan_on_spark(path, policy, spark)):
        with pytest.raises(sf.SfumatoError) as caught:
            sf.publish(opened, plan or planned(opened), folder / "r", key=KEY)
        raised.append(caught.value)
        assert listing(folder) == before
    assert type(raised[0]) is type(raised[1])
    assert str(raised[0]) == str(raised[1])
    return raised[1]
