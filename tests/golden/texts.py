"""What is held fast of a case, as texts: without what is random or dated, and with numbers that any machine gives."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import sfumato as sf
from tests.golden.cases import FILES, KEY_FILE, QUESTIONS, Case, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 7
DIGITS = 9
"""Significant digits of a number that is computed in floating point."""
NOTHING = 1e-12
"""Below this a number is what rounding left of 0."""
KEPT = ("policy_sha256", "policy_hash", "counts_hash")
"""Hashes of what a case states: a plan that was signed is valid for as long as they stay."""
Texts = dict[str, str]


def digest(text: str) -> str:
    """Return what hashes.json holds of a text."""
    return sha256(text.encode()).hexdigest()[:16]


# --- a case -----------------------------------------------------------------------------------------------------------


def texts(case: Case, folder: Path) -> Texts:
    """Publish a case on this machine, in every format, and return all of its parts."""
    opened = sf.scan(_source(case, folder), _policy(case, folder))
    key = _key(case, folder)
    plan = _plan(opened, key)
    file = folder / "plan.json"
    file.write_text(plan.to_json(), encoding="utf-8")
    parts = _of_plan(plan)
    release = sf.publish(opened, plan, folder / "parquet", key=key, format="parquet")
    sf.publish(opened, sf.load_plan(file), folder / "csv", key=key, format="csv")  # as one publishes what was signed
    parts |= {f"parquet/{name}": text for name, text in of_release(folder / "parquet").items()}
    parts |= {f"csv/{name}": text for name, text in of_release(folder / "csv").items()}
    parts["parquet/answers"] = _answers(release, case)
    parts["verify"] = _json([[check.name, check.status] for check in release.verify().checks])
    audit = sf.audit(opened, release, seed=SEED)
    parts["audit"] = _audit(audit, release)
    parts["audit/words"] = _plain(audit.explain(), release)
    parts["report"] = _page(folder / "report.html", release, audit, table=opened)
    if case.in_full:
        parts["csv/answers"] = _answers(sf.open_release(folder / "csv"), case)
        parts["report/public"] = _page(folder / "public.html", release, audit, public=True)
    return parts


def texts_on_spark(case: Case, folder: Path, spark: SparkSession) -> Texts:
    """Publish a case on Spark, and return what is of the engine."""
    path = folder / "table"
    path.mkdir()
    pq.write_table(table(), path / "0.parquet", row_group_size=100)
    policy, key = _policy(case, folder), _key(case, folder)
    there = sf.scan(spark.read.parquet(str(path)), policy)
    plan = _plan(there if case.name == "uniform" else sf.scan(path, policy), key)  # counting takes jobs: once is enough
    sf.publish(there, plan, folder / "release", key=key)
    return (_of_plan(plan) if case.name == "uniform" else {}) | of_release(folder / "release")


def _policy(case: Case, folder: Path) -> sf.Policy:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(case.policy, encoding="utf-8")
    return sf.Policy.load(folder / "policy.toml")


def _source(case: Case, folder: Path) -> Any:
    if not case.from_csv:
        return table()
    pyarrow.csv.write_csv(table(), folder / "table.csv", pyarrow.csv.WriteOptions(delimiter=";"))
    return folder / "table.csv"


def _key(case: Case, folder: Path) -> sf.SecretKey:
    if not case.key_file:
        return sf.SecretKey.from_seed(SEED)
    (folder / "key").write_text(KEY_FILE, encoding="ascii")
    (folder / "key").chmod(0o600)
    return sf.SecretKey.load(folder / "key")


def _plan(opened: sf.Table, key: sf.SecretKey) -> Any:
    made = sf.plan(sf.profile(opened, key=key), opened.policy.method, opened.policy.requirement, key=key)
    return made.bound_to(opened.hash(), opened.policy.hash())


def _of_plan(plan: Any) -> Texts:
    return {"plan": _json(json.loads(plan.to_json())), "explain": _plain(plan.explain())}


# --- a release, as its files have it ----------------------------------------------------------------------------------


def of_release(folder: Path) -> Texts:
    """Return the published rows, the groups, the manifest and the README."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    parts = {"rows": _file(folder, manifest["data"], shuffled=manifest["data"].get("shuffled", True))}
    if manifest["groups"]:
        parts["groups"] = _file(folder, manifest["groups"], shuffled=False)
    parts["readme"] = _plain((folder / "README.md").read_text(encoding="utf-8")).replace(
        manifest["release_id"], "<release>"
    )
    for name in ("release_id", "created", "software", "readme_sha256"):
        manifest[name] = f"<{name}>"
    for stated in (manifest["data"], manifest["groups"] or {}):
        stated.pop("parts", None)  # into how many files an engine cuts the rows is its own affair
    return parts | {"manifest": _json(manifest)}


def _file(folder: Path, stated: dict[str, Any], shuffled: bool) -> str:
    """Return a table of a release: its values, not the bytes of Parquet files, which depend on who wrote them."""
    path = folder / stated["file"]
    if path.suffix == ".csv":
        return path.read_text(encoding="utf-8")
    if not stated.get("parts"):
        return _values(pq.read_table(path))
    read = pa.concat_tables(pq.read_table(path / part["file"]) for part in stated["parts"])
    head, *rows = _values(read).splitlines()
    return "\n".join([head, *(sorted(rows) if shuffled else rows)])  # the order within parts depends on their number


def _values(read: pa.Table) -> str:
    """Return names and types, then a line for each row.

    >>> print(_values(pa.table({"a": [1, None], "b": ["x", "y"]})))
    a: int64, b: string
    (1, 'x')
    (None, 'y')
    """
    head = ", ".join(f"{column.name}: {column.type}" for column in read.schema)
    return "\n".join([head, *map(str, zip(*(column.to_pylist() for column in read.columns), strict=True))])


# --- what is said of a release ----------------------------------------------------------------------------------------


def _answers(release: sf.Release, case: Case) -> str:
    hidden, value = case.sensitive, case.value
    asked: list[Callable[[], Any]] = [
        *(lambda text=text: release.sql(text.format(s=hidden, v=value)) for text in QUESTIONS),  # type: ignore[misc]
        lambda: release.count(by=["sex", hidden], target="population", level=0.9),
        lambda: release.count(by=hidden, where="age <> '< 30'", method="em"),
        lambda: release.count(by=hidden, where="sex = 'M'", method="classical"),
        lambda: release.association("sex", hidden),
        lambda: release.risks("sex = 'F'", f"{hidden} = '{value}'"),
    ]
    return _json([_answered(question) for question in asked])


def _answered(question: Callable[[], Any]) -> Any:
    """Return the answer, or why there is none: that is an answer too."""
    try:
        return question().to_dict()
    except sf.SfumatoError as problem:
        return f"{type(problem).__name__}: {problem}"


def _audit(audit: sf.Audit, release: sf.Release) -> str:
    said = audit.to_dict()
    for name in ("created", "software", "release_id", "published"):
        said[name] = f"<{name}>"
    said["seconds"] = sorted(said["seconds"])
    return _plain(_json(said), release)


def _page(path: Path, release: sf.Release, audit: sf.Audit, **how: Any) -> str:
    """Return the words and numbers of a report, a line for each piece of text."""
    sf.report(audit, path, release=release, **how)
    words = _Words()
    words.feed(path.read_text(encoding="utf-8"))
    return _plain("\n".join(words.found), release)


class _Words(HTMLParser):
    """Collects what a page shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.found.append(" ".join(data.split()))


# --- without what is random or dated, and what differs between machines -----------------------------------------------


def _json(content: Any) -> str:
    return _plain(json.dumps(_rounded(content), indent=1, ensure_ascii=False))


def _rounded(content: Any) -> Any:
    """Round all floating point numbers, and shorten the hashes that stay, so that they are not taken for others.

    >>> _rounded({"a": [0.1 + 0.2, -1e-17, 12345678901, 2.0]})
    {'a': [0.3, 0.0, 12345678901, 2.0]}
    """
    if isinstance(content, dict):
        return {name: value[:32] if value and name in KEPT else _rounded(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_rounded(each) for each in content]
    if isinstance(content, float) and math.isfinite(content):
        return 0.0 if abs(content) < NOTHING else float(f"{content:.{DIGITS}g}")
    return content


def _plain(text: str, release: sf.Release | None = None) -> str:
    """Replace checksums, days, versions and places, and round long numbers.

    >>> _plain("0.30000000000000004 by sfumato 0.1.0 on 2026-11-17")
    '0.3 by sfumato <version> on <day>'
    """
    if release is not None:
        text = text.replace(str(release.folder), "<folder>").replace(release.manifest.release_id, "<release>")
    text = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d(T[\d:+]+)?", "<day>", text)
    text = re.sub(r"sfumato \d+\.\d+[\w.]*", "sfumato <version>", text)
    return re.sub(r"\b\d+\.\d{10,}(e-\d+)?", lambda found: f"{float(found[0]):.{DIGITS}g}", text)


# --- Spark ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Give the session that runs, and leave it running; else a new one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    runs = SparkContext._active_spark_context is not None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder if runs else _new_session(SparkSession.builder)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        if not runs:
            spark.stop()


def _new_session(builder: Any) -> Any:
    paths = [str(Path(sf.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return builder.master("local[2]").config(map=settings)
