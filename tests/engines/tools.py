"""What the engine, fault and command-line tests share: publishing in one call, and rows that can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.analyst.release import Release, open_release
from sfumato.errors import ReleaseError
from sfumato.methods import plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, profile, scan
from sfumato.release.folder import MANIFEST_NAME, README_NAME, file_sha256, manifest_seal
from sfumato.release.manifest import Manifest
from sfumato.release.readme import readme
from sfumato.values.randomness import SecretKey
from sfumato.values.row_order import OrderTest
from tests.conftest import make_policy

DISEASES = ["asthma", "flu", "gout", "mumps"]
ROLES = {"name": "identifier", "age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}


def patients(rows: int = 300, seed: int = 7) -> pa.Table:
    """Return a small table in random order; every age is unique, so it tells rows apart."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"patient {k}" for k in range(rows)],
            "age": rng.permutation(rows).tolist(),
            "sex": rng.choice(["F", "M"], rows).tolist(),
            "disease": rng.choice(DISEASES, rows, p=[0.4, 0.3, 0.2, 0.1]).tolist(),
        }
    )


def planned(table: Table, shuffle: bool | None = None, key: SecretKey | None = None) -> Any:
    """Count and plan as the policy asks; `shuffle` overrules it, False also where the order of the rows tells."""
    counted, policy = profile(table), table.policy
    if shuffle is not None:
        counted = replace(counted, order=OrderTest.combined(1.0, 1.0), keeps_order=not shuffle)
    return plan(counted, policy.method, policy.requirement, key=key)


def released(
    table: Any,
    policy: Policy | None = None,
    *,
    folder: Path,
    key: SecretKey | None = None,
    seed: int = 1,
    shuffle: bool | None = None,
    format: Any = None,
) -> Release:
    """Plan and publish with a seed, in one call."""
    opened = scan(table, policy or make_policy(ROLES))
    key = key or SecretKey.from_seed(seed)
    return publish(opened, planned(opened, shuffle), folder, key=key, format=format)


def read_by_spark(path: Path) -> Any:
    """Return a table in Parquet files as the session that runs reads it."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    return session.read.parquet(str(path))


def resealed(release: Release) -> Release:
    """Give changed files new checksums and a new README: a release that was made wrongly, not changed afterwards."""
    made = release.manifest
    data = made.data.model_copy(update={"sha256": file_sha256(release.data)})
    groups = made.groups
    if groups is not None and release.groups is not None:
        groups = groups.model_copy(update={"sha256": file_sha256(release.groups)})
    return sealed(made.model_copy(update={"data": data, "groups": groups}), release.folder)


def _readme(manifest: Manifest) -> str:
    """Return the README; of a matrix that is none, where there is no card, a title alone."""
    try:
        return readme(manifest)
    except ReleaseError:
        return f"# Release {manifest.release_id}\n"


def sealed(manifest: Manifest, folder: Path) -> Release:
    """Write README and manifest to a folder that has the data."""
    made, path = manifest.model_copy(update={"readme_sha256": ""}), folder / README_NAME
    path.write_text(_readme(made) + f"\n{manifest_seal(made.to_json(), '')}\n", encoding="utf-8")
    made = made.model_copy(update={"readme_sha256": file_sha256(path)})
    (folder / MANIFEST_NAME).write_text(made.to_json(), encoding="utf-8")
    return open_release(folder)


def rows_of(release: Release) -> list[tuple[str, ...]]:
    """Return the published rows in their order, as text: 7 in a Parquet file and "7" in a CSV file are the same."""
    is_parquet = release.manifest.data.format == "parquet"
    table = pq.read_table(release.data_files, use_threads=False) if is_parquet else release.to_arrow()
    columns = [[_text(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def multiset(release: Release) -> Counter[tuple[str, ...]]:
    """Return the published rows without their order."""
    return Counter(rows_of(release))


def _text(value: Any) -> str:
    return "(missing)" if value is None else str(value)


def listing(folder: Path) -> list[str]:
    """Return all that is in a folder, hidden files too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
