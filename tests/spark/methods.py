"""Each method of the project on one small table in 8 files, and what tells two releases of it apart."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import Release, open_release
from sfumato.publisher.publish import publish
from sfumato.publisher.table import scan, scan_on_spark
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import DISEASES, planned, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 8, 3000
KEY = SecretKey.from_seed(5)
ROLES = {
    "name": "identifier",
    "age": "other",
    "sex": "quasi_identifier",
    "ward": "quasi_identifier",
    "disease": "sensitive; missing = 'category'",
}
DROPPING = ROLES | {"disease": "sensitive; missing = 'drop'"}
RHO, L = "rho1 = 0.2\nrho2 = 0.5", "l = 2"
METHODS = {
    "uniform": make_policy(ROLES, RHO),
    "uniform, rows dropped": make_policy(DROPPING, RHO),
    "fine-grain": make_policy(DROPPING, RHO, "fine-grain"),
    "small-domain": make_policy(DROPPING, RHO, "small-domain"),
    "randomized-response": make_policy(ROLES, "risk_limit = 0.385", "randomized-response"),
    "anatomy": make_policy(DROPPING, L, "anatomy"),
    "suppression": make_policy(DROPPING, "l = 3", "suppression"),
    "robust-anatomy": make_policy(DROPPING, "r = 2", "robust-anatomy", options='attribute_sets = [["sex"]]'),
}


def write_table(folder: Path) -> Path:
    """Write the table in 8 files of several row groups; every tenth disease is missing."""
    rng = np.random.default_rng(3)
    diseases = rng.choice(DISEASES, ROWS, p=[0.4, 0.3, 0.2, 0.1])
    table = pa.table(
        {
            "name": [f"patient {k}" for k in range(ROWS)],
            "age": rng.permutation(ROWS),
            "sex": rng.choice(["F", "M"], ROWS),
            "ward": rng.choice(["north", "south", "west"], ROWS),
            "disease": pa.array(diseases, mask=rng.random(ROWS) < 0.1),
        }
    )
    folder.mkdir()
    ends = np.linspace(0, ROWS, FILES + 1).astype(int)
    for number, (first, last) in enumerate(pairwise(ends)):
        pq.write_table(table[first:last], folder / f"{number}.parquet", row_group_size=100)
    return folder


def small_parts() -> None:
    """Let releases have several parts, and deals too, on both engines."""
    patch = pytest.MonkeyPatch()  # for good: the process is a driver of its own
    set_constants(patch, "sfumato.engines.spark", PART_ROWS=1000)
    set_constants(patch, "sfumato.engines.deal", PART_ROWS=400)


def wait_for_workers(spark: SparkSession) -> None:
    """Wait until both workers have an executor: a job that starts before would run on one."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    while status().size() < 3:  # the driver is one of them
        time.sleep(0.05)


def publish_both(spark: SparkSession, table: Path, name: str, folder: Path) -> None:
    """Publish on one machine and on Spark by one plan and one key."""
    small_parts()
    policy = METHODS[name]
    here = scan(table, policy)
    plan = planned(here, shuffle=False) if name == "uniform" else planned(here)
    for engine, opened in (("embedded", here), ("spark", scan_on_spark(table, policy, spark))):
        (folder / engine).mkdir(parents=True, exist_ok=True)
        publish(opened, plan, folder / engine / name, key=KEY)


def differing(folder: Path, name: str) -> int:
    """Return how many rows differ between the engines: of the values of groups, and of the data, in their order where
    Spark's are not shuffled.
    """
    one, other = (open_release(folder / engine / name) for engine in ("embedded", "spark"))
    check_files(other)
    if other.manifest.data.shuffled:
        found = _apart(rows_of(one), rows_of(other))
    else:
        assert one.manifest.data.rows == other.manifest.data.rows
        found = sum(a != b for a, b in zip(rows_of(one), rows_of(other), strict=True))
    if one.manifest.groups:
        found += _apart(*(release.groups_to_arrow().to_pylist() for release in (one, other)))
    return found


def _apart(one: list[Any], other: list[Any]) -> int:
    first, second = (Counter(map(str, rows)) for rows in (one, other))
    return ((first - second) + (second - first)).total()


def check_files(release: Release) -> None:
    """Raise unless the folder has exactly the files that the manifest names, and these check out."""
    manifest = release.manifest
    expected = {"manifest.json", "README.md", "data", *(f"data/{part.file}" for part in manifest.data.parts or ())}
    if manifest.groups:
        expected |= {"groups", *(f"groups/{part.file}" for part in manifest.groups.parts or ())}
    assert {str(path.relative_to(release.folder)) for path in release.folder.rglob("*")} == expected
    assert {check.name for check in release.verify().checks if check.status == "fails"} <= {"secret key"}  # of a seed
