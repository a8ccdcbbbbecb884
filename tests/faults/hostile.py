"""Releases that somebody made to do harm: a list of them, each a change of an honest release.

A case has the release whose copy it changes, the change, and what must be said of it by `verify`: a regular expression;
None where the release is honest, and only what is in it is odd.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import scan
from sfumato.release.folder import file_sha256
from sfumato.values.randomness import SecretKey
from tests.engines.tools import patients, planned
from tests.fuzz.targets import sealed

SECRET = "planted-words-of-another-file"
ROWS = 120
ANY = "."
REFUSED = "not one of version 1"
LINK = "is a link to another file"
OUTSIDE = "names a file outside of it"


@dataclass(frozen=True)
class Base:
    """An honest release, with the table and the policy that it was made of, in a folder of its own."""

    folder: Path
    secret: str
    value: str

    @property
    def release(self) -> Path:
        return self.folder / "release"


@dataclass(frozen=True)
class Hostile:
    """A release that does harm, if it can."""

    name: str
    base: str
    change: Callable[[Path, Path], None]  # of the copied release, and of the folder of planted files
    said: str | None = ANY


def bases(folder: Path, asked: Collection[str] = ()) -> dict[str, Base]:
    """Make the honest releases, or those of them that are asked for."""
    recipes = dict(_recipes())
    return {name: recipes[name](folder / name) for name in asked or recipes}


def _recipes() -> Iterator[tuple[str, Callable[[Path], Base]]]:
    """Give the names of the honest releases, and what makes each; of odd names and values each has its own."""
    for name, (method, asked, format) in PLAIN.items():
        policy = {"method": {"name": method}, "requirement": asked, "output": {"format": format}}
        yield name, partial(_made, table=patients(ROWS), stated=policy)
    for format in ("parquet", "csv"):
        policy = {"method": {"name": "uniform"}, "requirement": ASKED, "output": {"format": format}}
        for number, text in enumerate(TEXTS):
            yield f"value {number} {format}", partial(_made, table=_odd_table(text), stated=policy, value=text)
            if len(text) < MOST_LETTERS:
                table = patients(ROWS).rename_columns(["name", "age", f"{text} known", f"{text} secret"])
                yield f"name {number} {format}", partial(_made, table=table, stated=policy)


ASKED = {"rho1": 0.3, "rho2": 0.7}
PLAIN = {
    "uniform": ("uniform", ASKED, "parquet"),
    "uniform csv": ("uniform", ASKED, "csv"),
    "anatomy": ("anatomy", {"l": 2}, "parquet"),
    "anatomy csv": ("anatomy", {"l": 2}, "csv"),
    "subset": ("subset", ASKED, "parquet"),
}
MOST_LETTERS = 1000
TEXTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "[click](javascript:alert(1)) `code` | cell |",
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07\x1b]8;;http://localhost:9\x07link",
    "\x9b31m",
    "\u202egnp.\u2066x",
    "\u200b\ufeff\u2028x",
    "two\nlines\rand\ttabs",
    '=HYPERLINK("http://localhost:9/?"&A1)',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "'; DROP VIEW release; --",
    "\" OR 1=1; COPY release TO 'out' --",
    "$1 %s %n {0} {x!r} \\N{BULLET}",
    "../../../etc/passwd",
    "$(touch out) `touch out` ; touch out",
    "\\u003cscript\\u003e&lt;script&gt;&#60;script",
    "x" * 100_000,
)
"""Names and values: HTML, templates, Markdown, terminals, spreadsheets, SQL, shells, paths, unseen letters."""


def _odd_table(text: str) -> pa.Table:
    plain = patients(ROWS)
    known = pa.array([text if sex == "F" else f"{text}." for sex in plain["sex"].to_pylist()])
    secret = pa.array([text if disease == "flu" else disease for disease in plain["disease"].to_pylist()])
    return plain.set_column(2, "sex", known).set_column(3, "disease", secret)


def _made(folder: Path, table: pa.Table, stated: dict[str, Any], value: str = "flu") -> Base:
    base = Base(folder, table.column_names[-1], value)
    (folder / "private").mkdir(parents=True)
    pq.write_table(table, folder / "private" / "table.parquet")
    kept = "a test follows rows by it"
    roles = ("identifier", "quasi_identifier", "quasi_identifier", "sensitive")
    columns = {
        name: {"role": role} | ({"publish_as_is": kept} if role == "quasi_identifier" else {})
        for name, role in zip(table.column_names, roles, strict=True)
    }
    policy = Policy.model_validate({**stated, "columns": columns})
    (folder / "private" / "policy.toml").write_text(policy.to_toml(), encoding="utf-8", newline="")
    opened = scan(folder / "private" / "table.parquet", policy)
    publish(opened, planned(opened), base.release, key=SecretKey.from_seed(1))
    return base


# --- changes ----------------------------------------------------------------------------------------------------------


def _stated(release: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((release / "manifest.json").read_text())
    return found


def _restate(release: Path, _: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what the manifest states, and let the README seal it."""
    raw = _stated(release)
    change(raw)
    sealed(release, json.dumps(raw).encode())


def _set(*path: str | int, to: Any) -> Callable[[Path, Path], None]:
    def change(raw: Any) -> None:
        for step in path[:-1]:
            raw = raw[step]
        raw[path[-1]] = to

    return partial(_restate, change=change)


def _raw(release: Path, _: Path, content: bytes) -> None:
    sealed(release, content)


def _spliced(release: Path, _: Path, before: str, after: str) -> None:
    """Replace a text of the manifest, as it stands: what no JSON value can say."""
    text = json.dumps(_stated(release), indent=2)
    assert before in text, before
    (release / "manifest.json").write_text(text.replace(before, after, 1), encoding="utf-8")


def _link(release: Path, planted: Path, name: str, to: str) -> None:
    target = planted / "copy"
    if to == "itself":
        target = release / name
    elif to != "copy":
        target = Path(to)
    shutil.move(release / name, planted / "copy")
    (release / name).symlink_to(target)


def _hard_link(release: Path, planted: Path, name: str) -> None:
    (release / name).unlink()
    os.link(planted / "secret.txt", release / name)


def _of_kind(release: Path, _: Path, name: str, kind: str) -> None:
    path = release / name
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a socket":
        here = os.getcwd()
        os.chdir(release)  # the names of sockets are short
        socket.socket(socket.AF_UNIX).bind(name)
        os.chdir(here)
    elif kind == "20 GB of nothing":
        with open(path, "wb") as file:
            file.truncate(20 << 30)
    elif kind == "10 million brackets":
        path.write_bytes(b"[" * 10_000_000)
    else:
        path.write_bytes(b"" if kind == "empty" else os.urandom(1000) if kind == "noise" else b"PAR1" * 2)


def _with_data(release: Path, planted: Path, write: Callable[[Path], int], part: str = "data") -> None:
    """Put other rows into a table, and state their checksum and number."""
    raw = _stated(release)
    path = release / raw[part]["file"]
    raw[part]["rows" if part == "data" else "lines"] = write(path)
    raw[part]["sha256"] = file_sha256(path)
    sealed(release, json.dumps(raw).encode())


def _constant(path: Path, rows: int, text: str) -> int:
    """Write rows that are all alike: a small file, and as many bytes as rows times letters once it is read."""
    like = pq.read_table(path).slice(0, 1)
    one = [pa.scalar(text if pa.types.is_string(f.type) else 1).cast(f.type) for f in like.schema]
    many = [
        pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([v.as_py()])) for v in one
    ]
    pq.write_table(pa.Table.from_arrays(many, like.column_names), path, compression="zstd", store_schema=False)
    return rows


def _parquet(path: Path, table: pa.Table, **how: Any) -> int:
    pq.write_table(table, path, **how)
    return int(table.num_rows)


def _zeros(path: Path, size: int) -> int:
    """Write one value of so many bytes: made here, since who holds the list of cases need not hold them."""
    return _parquet(path, pa.table({"x": [b"\0" * size]}), compression="zstd")


def _bytes(path: Path, content: bytes, rows: int = ROWS) -> int:
    path.write_bytes(content)
    return rows


def _footer(path: Path, length: int) -> int:
    content = path.read_bytes()
    path.write_bytes(content[:-8] + (length % 2**32).to_bytes(4, "little") + b"PAR1")
    return ROWS


def _cut(path: Path, share: float) -> int:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return ROWS


def _flipped(path: Path, every: int) -> int:
    content = bytearray(path.read_bytes())
    for at in range(4, len(content) - 8, every):
        content[at] ^= 0xFF
    path.write_bytes(content)
    return ROWS


def _beside(release: Path, _: Path, name: str, content: str = SECRET) -> None:
    (release / name).parent.mkdir(parents=True, exist_ok=True)
    (release / name).write_text(content)


def _many_beside(release: Path, _: Path, number: int) -> None:
    for k in range(number):
        (release / f"file {k}").touch()


def _deep_beside(release: Path, _: Path) -> None:
    folder = release / "/".join(["f"] * 200)
    folder.mkdir(parents=True)
    (folder / "x").write_text(SECRET)


def _nothing(release: Path, _: Path) -> None:
    """Leave the release as it is: what is in it is odd enough."""


# --- the list ---------------------------------------------------------------------------------------------------------


FILES = {
    "uniform": ("manifest.json", "README.md", "data.parquet"),
    "anatomy csv": ("data.csv", "groups.csv"),
}
KINDS = ("a pipe", "a folder", "a socket", "20 GB of nothing", "10 million brackets", "empty", "noise", "magic only")
SPARSE_TABLE = ("data.parquet", "data.csv", "groups.csv")


def _links() -> Iterator[Hostile]:
    for base, files in FILES.items():
        for file in files:
            for to in ("copy", "/etc/passwd", "/nowhere", "itself", "/dev/zero", "/proc/self/environ"):
                said = LINK if file != "manifest.json" or to in ("copy",) else ANY
                yield Hostile(f"{file} of {base} is a link to {to}", base, partial(_link, name=file, to=to), said)
            yield Hostile(f"{file} of {base} is a hard link to another file", base, partial(_hard_link, name=file))
            for kind in KINDS:
                if kind == "20 GB of nothing" and file in SPARSE_TABLE:
                    continue  # a table may be so large; to read it through takes as long as it is
                yield Hostile(f"{file} of {base} is {kind}", base, partial(_of_kind, name=file, kind=kind))


PATHS = (
    "../planted/secret.txt",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "./data.parquet",
    "sub/data.parquet",
    "..\\planted\\secret.txt",
    "data.parquet\0.txt",
    "~/secret.txt",
    "$HOME/secret.txt",
    "/dev/zero",
    "/proc/self/environ",
    "file:///etc/passwd",
    "http://localhost:9/data.parquet",
    "s3://bucket/data.parquet",
    "*.parquet",
    "data.par?uet",
    "{data,README}.parquet",
    "manifest.json",
    "README.md",
    "x" * 5000,
    "da\nta.parquet",
    "\x1b[2Jdata.parquet",
    "\u202edata.parquet",
    "data.parquet' UNION SELECT 1 --",
    "<img src=x onerror=alert(1)>.parquet",
)


def _names() -> Iterator[Hostile]:
    for path in PATHS:
        yield Hostile(f"data in {path[:40]!r}", "uniform", _set("data", "file", to=path))
        yield Hostile(f"groups in {path[:40]!r}", "anatomy csv", _set("groups", "file", to=path))
    parts = [{"file": "../data.parquet", "rows": ROWS, "sha256": "0" * 64}]
    yield Hostile("a part that leads out", "uniform", _set("data", "parts", to=parts), REFUSED)


HUGE = {
    "a billion": 10**9,
    "2^63": 2**63,
    "300 digits": 10**300,
    "less than nothing": -1,
    "a million digits": "DIGITS",
    "1e999": "EXPONENT",
    "NaN": float("nan"),
    "text": "12",
    "true": True,
}
COUNTED = {
    "rows": ("uniform", "data", "rows"),
    "size": ("uniform", "mechanisms", 0, "sub_tables", 0, "noise", "size"),
    "minimum_sub_table": ("uniform", "mechanisms", 0, "minimum_sub_table"),
    "epsilon": ("uniform", "mechanisms", 0, "epsilon"),
    "lines": ("anatomy", "groups", "lines"),
    "number": ("anatomy", "groups", "number"),
    "withheld": ("anatomy", "groups", "withheld"),
}


def _spelled(release: Path, planted: Path, path: tuple[str | int, ...], number: Any) -> None:
    """State a number, also one that Python would not write."""
    spelled = {"DIGITS": "9" * 1_000_000, "EXPONENT": "1e999"}.get(str(number))
    _set(*path, to="HERE" if spelled else number)(release, planted)
    if spelled:
        _spliced(release, planted, '"HERE"', spelled)


def _numbers() -> Iterator[Hostile]:
    for key, (base, *path) in COUNTED.items():
        for name, number in HUGE.items():
            if (key, name) not in FINE:
                yield Hostile(f"{key} is {name}", str(base), partial(_spelled, path=tuple(path), number=number))
    table = ("mechanisms", 0, "sub_tables", 0)
    for name, text in {"digits": "9" * 1_000_000, "2^64": str(2**64), "0": "0", "minus": "-1", "sign": "+1"}.items():
        yield Hostile(f"a weight of {name}", "uniform", _set(*table, "noise", "weights", to=[text]))
    for name, text in {"1/0": "1/0", "0/0": "0/0", "digits": "1/" + "9" * 1_000_000, "0": "0", "x": "x"}.items():
        yield Hostile(f"gamma is {name}", "uniform", _set(*table, "bounds", 0, "gamma", to=text))
        yield Hostile(f"a share of {name}", "anatomy", _set("groups", "at_most", to=text))
    for name, matrix in MATRICES.items():
        yield Hostile(f"a matrix by {name}", "uniform", partial(_restate, change=partial(_matrix, matrix=matrix)))


FINE = {("epsilon", "NaN")}
"""What the writer of JSON turns into something else."""
MATRICES: dict[str, dict[str, Any]] = {
    "a deck of a billion values": {"deck": {"values": 10**9, "blocks": [[0, 1]], "inside": "1", "outside": "1"}},
    "a deck of far places": {"deck": {"values": 4, "blocks": [[0, 10**12]], "inside": "1", "outside": "1"}},
    "a wide window": {
        "windows": {"order": [0, 1, 2, 3], "width": 10**9, "blocks": [], "inside": ["1", "1"], "outside": ["1", "1"]}
    },
    "an order without an end": {
        "windows": {"order": [10**9], "width": 1, "blocks": [[0]], "inside": ["1", "1"], "outside": ["1", "1"]}
    },
    "rings that meet late": {
        "graded": {
            "classes": [0, 1, 2, 3],
            "rings": [999_983, 999_979, 999_961, 999_959],
            "orbits": [{"blocks": [[[0]], [[0]], [[0]], [[0]]], "inside": ["1"] * 4, "outside": ["1"] * 4}],
        }
    },
    "classes that are not there": {"blocks": {"classes": [0, 1, 10**9, 3], "weights": [["1"]]}},
    "a million blocks": {"blocks": {"classes": [0, 0, 0, 0], "weights": [["1"] * 1000] * 1000}},
    "half a million columns": {"columns": [["1"]] * 500_000},
    "cards of a million": {"columns": [["1"]] * 4, "cards": [[0]] * 1_000_000},
    "two at a time": {"noise": {"size": 4, "weights": ["1"]}, "columns": [["1"] * 4] * 4},
    "nothing": {},
}


def _matrix(raw: dict[str, Any], matrix: dict[str, Any]) -> None:
    table = raw["mechanisms"][0]["sub_tables"][0]
    del table["noise"]
    table.update(matrix)


def _json() -> Iterator[Hostile]:
    deep = 100_000
    contents = {
        "a list in a list": b"[" * deep + b"]" * deep,
        "an object in an object": b'{"a":' * deep + b"1" + b"}" * deep,
        "a number": b"1",
        "nothing": b"",
        "a byte order mark": b"\xef\xbb\xbf{}",
        "UTF-16": "{}".encode("utf-16"),
        "a half of a letter": b'{"method": "\xed\xa0\x80"}',
        "zero bytes": b"\0" * 10_000,
        "a million keys": ("{" + ",".join(f'"k{k}": 1' for k in range(1_000_000)) + "}").encode(),
        "50 MB of text": b'{"method": "' + b"x" * 50_000_000 + b'"}',
        "one key a million times": ("{" + ",".join(['"method": "uniform"'] * 1_000_000) + "}").encode(),
        "a comment": b"{/* */}",
        "a pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "YAML": b"!!python/object/apply:os.system ['touch out']",
        "gzip": b"\x1f\x8b\x08\x00" + b"\0" * 100,
    }
    for name, content in contents.items():
        yield Hostile(f"a manifest of {name}", "uniform", partial(_raw, content=content), REFUSED)
    nested: Any = 1
    for _ in range(150):
        nested = [nested]
    for key in ("guarantee", "columns", "mechanisms", "merged", "data", "computed_from_table"):
        yield Hostile(f"{key} nested deeply", "uniform", _set(key, to=nested), REFUSED)
        splice = partial(_spelled, path=(key,), number="DIGITS")
        yield Hostile(f"{key} is a number of a million digits", "uniform", splice, REFUSED)
    for key in ("__proto__", "__class__", "$ref", "constructor"):
        yield Hostile(f"a key {key}", "uniform", _set(key, to={"x": 1}), REFUSED)
    yield Hostile("version 2", "uniform", _set("manifest_version", to=2), REFUSED)


TYPES = (
    "decimal128(999999999, 0)",
    "decimal128(38, -2147483648)",
    "timestamp[us, tz=../../../../etc/passwd]",
    "timestamp[us, tz=" + "x" * 100_000 + "]",
    "list<item: " * 5000 + "int8" + ">" * 5000,
    "VARCHAR); COPY release TO 'out'; --",
    "int64'",
    "\x1b[2Jint64",
    "<b>int64</b>",
    "",
)


def _told() -> Iterator[Hostile]:
    """Give texts where people or databases read them."""
    for place in TYPES:
        yield Hostile(f"a column of type {place[:40]!r}", "uniform csv", _set("columns", 0, "type", to=place))
    marked = "<script>alert(1)</script>\x1b[2J\u202e=1+1"
    texts: dict[str, tuple[str | int, ...]] = {
        "software": ("software",),
        "created": ("created",),
        "release_id": ("release_id",),
        "method": ("method",),
        "the promise": ("guarantee", "sentence"),
        "the attacker": ("guarantee", "adversary"),
        "a limit": ("guarantee", "limits"),
        "what was computed": ("computed_from_table",),
        "a second release": ("second_release",),
        "what was given": ("mechanisms", 0, "sub_tables", 0, "bounds", 0, "given"),
        "policy_sha256": ("policy_sha256",),
        "a name": ("columns", 1, "name"),
        "a value": ("mechanisms", 0, "domain", 0, "values", 0),
        "the column of sub-tables": ("mechanisms", 0, "sub_table_column"),
    }
    for name, path in texts.items():
        lists = name in ("a limit", "what was computed")
        for label, text in (("marks", marked), ("a million letters", "x" * 1_000_000), ("nothing", "")):
            yield Hostile(f"{name} of {label}", "uniform", _set(*path, to=[text] if lists else text), None)
    for number, values in (("no", []), ("twin", ["a", "a"]), ("300,000", [str(k) for k in range(300_000)])):
        yield Hostile(f"{number} values", "uniform", _set("mechanisms", 0, "domain", 0, "values", to=values))
    column = {"name": "x", "type": "int64", "treatment": "untouched"}
    many = [{**column, "name": f"x{k}"} for k in range(100_000)]
    yield Hostile("a hundred thousand columns", "uniform", _set("columns", to=many))
    yield Hostile("no columns", "uniform", _set("columns", to=[]))
    yield Hostile("one column twice", "uniform", _set("columns", to=[column, column]))
    merged = {"sex": {f"m{k}": [f"v{k}"] for k in range(100_000)}}
    yield Hostile("a hundred thousand merged values", "uniform", _set("merged", to=merged))


def _bombs() -> Iterator[Hostile]:
    one = pa.table({"x": pa.array([1])})
    deep: Any = pa.array([1])
    for _ in range(60):
        deep = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), deep)
    wide = pa.table({f"c{k}": [1] for k in range(5000)})
    parquet: dict[str, Callable[[Path], int]] = {
        "20 million rows alike": partial(_constant, rows=20_000_000, text="flu"),
        "a million rows of 100,000 letters": partial(_constant, rows=1_000_000, text="x" * 100_000),
        "one column": partial(_parquet, table=one),
        "lists in lists": partial(_parquet, table=pa.table({"x": deep})),
        "5,000 columns": partial(_parquet, table=wide),
        "500 MB of zeros": partial(_zeros, size=500_000_000),
        "metadata": partial(
            _parquet, table=one.replace_schema_metadata({"ARROW:schema": "x" * 1_000_000, "pandas": "{" * 10_000})
        ),
        "a footer beyond the file": partial(_footer, length=2**31 - 1),
        "a footer of nothing": partial(_footer, length=0),
        "a footer of less than nothing": partial(_footer, length=-1),
        "half a file": partial(_cut, share=0.5),
        "a file without its end": partial(_cut, share=0.99),
        "bytes turned over": partial(_flipped, every=7),
        "some bytes turned over": partial(_flipped, every=301),
        "a database": partial(_bytes, content=b"SQLite format 3\0" + b"\0" * 4000),
        "an archive": partial(_bytes, content=b"PK\x03\x04" + b"\0" * 4000 + b"PK\x05\x06"),
        "encrypted columns": partial(_bytes, content=b"PARE" + b"\0" * 1000 + b"\x10\0\0\0PARE"),
        "CSV": partial(_bytes, content=b"age,sex,disease\n1,F,flu\n"),
    }
    for name, write in parquet.items():
        yield Hostile(f"data of {name}", "uniform", partial(_with_data, write=write))
        if not name.endswith(("zeros", "letters")):
            yield Hostile(f"groups of {name}", "anatomy", partial(_with_data, write=write, part="groups"))
    head = b"age,sex,disease\n"
    csv: dict[str, bytes] = {
        "a line of 30 MB": head + b"1,F," + b"x" * 30_000_000,
        "a million columns": b",".join([b"c"] * 1_000_000) + b"\n",
        "an open quote": head + b'1,F,"flu\n' * 1000,
        "nothing but quotes": head + b'"' * 3_000_000,
        "nothing but lines": head + b"\n" * 20_000_000,
        "nothing but commas": head + b"," * 20_000_000,
        "zero bytes": head + b"1,F,\0\n" * 120,
        "another encoding": "age,sex,disease\n1,F,flu\n".encode("utf-16"),
        "half letters": head + b"1,F,\xed\xa0\x80\n" * 120,
        "gzip": b"\x1f\x8b\x08\x00" + b"\0" * 1000,
        "Parquet": b"PAR1" + b"\0" * 1000 + b"PAR1",
        "formulas": head + b'1,F,"=HYPERLINK(""http://localhost:9"")"\n' * 120,
        "another header": b"<script>,'; DROP VIEW release,\x1b[2J\n" + b"1,F,flu\n" * 120,
        "no header": b"1,F,flu\n" * 120,
        "numbers of a million digits": head + b"9" * 1_000_000 + b",F,flu\n",
        "far dates": head + b"99999-99-99,F,flu\n" * 120,
    }
    for name, content in csv.items():
        write = partial(_bytes, content=content)
        yield Hostile(f"lines of {name}", "uniform csv", partial(_with_data, write=write))
        yield Hostile(f"lines of groups of {name}", "anatomy csv", partial(_with_data, write=write, part="groups"))


BESIDE = (
    "sfumato.py",
    "sitecustomize.py",
    "conftest.py",
    "__pycache__/x.pyc",
    "pyproject.toml",
    ".duckdbrc",
    ".hidden",
    "private/table.parquet",
    "plan.json",
    "duckdb.db",
    "data.parquet.tmp",
    "\x1b[2J.txt",
    "<script>alert(1)<／script>",
    "two\nlines",
    "\u202efdp.exe",
    "=1+1.csv",
    "-rf",
    "m\u0430nifest.json",
    "MANIFEST.JSON",
    "ı",
)


def _foreign() -> Iterator[Hostile]:
    for name in BESIDE:
        change = partial(_beside, name=name)
        yield Hostile(f"a file {name!r} beside", "uniform", change, "It also holds")
    yield Hostile("two thousand files beside", "uniform", partial(_many_beside, number=2000), "It also holds")
    yield Hostile("200 folders in one another", "uniform", _deep_beside, "It also holds")
    for name, text in {"nothing": "", "noise": "x" * 1_000_000, "brackets": "[" * 100_000, "zeros": "\0" * 64}.items():
        yield Hostile(f"a signature of {name}", "uniform", partial(_beside, name="manifest.sig", content=text))


def _odd() -> Iterator[Hostile]:
    """Give releases that are honest, and hold odd names and values."""
    for format in ("parquet", "csv"):
        for number, text in enumerate(TEXTS):
            yield Hostile(f"a value {text[:40]!r} in {format}", f"value {number} {format}", _nothing, None)
            if len(text) < MOST_LETTERS:
                yield Hostile(f"a name {text[:40]!r} in {format}", f"name {number} {format}", _nothing, None)


KINDS_OF_CASES = (_links, _names, _numbers, _json, _told, _bombs, _foreign, _odd)
"""Generators, each of cases of one kind."""
