"""Bad input gets a clear error of the right kind, with a hint; nothing is written and the input is untouched."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import open_release
from sfumato.errors import PolicyError, ReleaseError, SfumatoError, TableError, UsageError
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import profile, scan
from tests.conftest import make_policy
from tests.engines.tools import ROLES, listing, patients, released

GOOD = "name,age,sex,disease\n" + "".join(f"n{k},{k},F,{'flu' if k % 3 else 'gout'}\n" for k in range(60))


def refused(
    table: Any, match: str, folder: Path, kind: type[SfumatoError] = TableError, policy: Policy | None = None
) -> SfumatoError:
    """Assert that publishing raises, and that the folder is as it was, byte for byte."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(kind, match=match) as caught:
        released(table, policy or make_policy(ROLES), folder=folder / "r")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not [name for name in listing(folder) if "partial" in name or name.startswith("r/")]
    assert caught.value.exit_code == 2
    return caught.value


def csv(text: str | bytes, folder: Path, name: str = "t.csv") -> Path:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


# --- columns ------------------------------------------------------------------------------------------------------


def test_a_missing_column(tmp_path: Path) -> None:
    problem = refused(patients().drop_columns("sex"), "no column 'sex', which the policy names", tmp_path)
    assert "'age'" in problem.hint


def test_an_unstated_column(tmp_path: Path) -> None:
    table = patients().append_column("extra", [[1] * 300])
    assert "role" in refused(table, "no role for 'extra'", tmp_path, PolicyError).hint


def test_a_column_twice(tmp_path: Path) -> None:
    table = patients().append_column("sex", [["F"] * 300])
    assert refused(table, "a column more than once: 'sex'", tmp_path).hint
    pq.write_table(table, tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "a column more than once: 'sex'", tmp_path)
    refused(csv(GOOD.replace("age", "sex", 1), tmp_path), "a column more than once: 'sex'", tmp_path)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_unnamed_column(name: str, tmp_path: Path) -> None:
    assert refused(
        patients().rename_columns(["name", name, "sex", "disease"]), "Column 2 .* has no name", tmp_path
    ).hint
    refused(csv(GOOD.replace("age", name, 1), tmp_path), "Column 2 .* has no name", tmp_path)


def test_two_columns_that_differ_in_case_only(tmp_path: Path) -> None:
    """An analyst's SQL would read one for the other."""
    table = pa.table({"Sex": ["F", "M"] * 30, "sex": ["f", "m"] * 30, "s": ["a", "b"] * 30})
    policy = make_policy({"Sex": "other", "sex": "other", "s": "sensitive"})
    assert "Rename" in refused(table, "'Sex' and 'sex' differ in case only", tmp_path, policy=policy).hint
    dropped = make_policy({"Sex": "identifier", "sex": "other", "s": "sensitive"})
    assert released(table, dropped, folder=tmp_path / "r").column_names == ("sex", "s")


def test_a_name_with_a_zero_byte(tmp_path: Path) -> None:
    """DuckDB would cut it short."""
    pq.write_table(pa.table({"se\0x": ["F", "M"] * 30, "s": ["a", "b"] * 30}), tmp_path / "t.parquet")
    policy = Policy.model_validate(
        {
            "columns": {"se\0x": {"role": "other"}, "s": {"role": "sensitive"}},
            "method": {"name": "uniform"},
            "requirement": {"rho1": 0.2, "rho2": 0.5},
        }
    )
    refused(tmp_path / "t.parquet", "zero byte", tmp_path, policy=policy)


@pytest.mark.parametrize(
    "column",
    [pa.array([b"x"] * 300), pa.array([[1]] * 300), pa.array([{"a": 1}] * 300), pa.array([1] * 300, pa.duration("s"))],
    ids=["bytes", "lists", "structs", "durations"],
)
def test_a_type_that_is_not_published(column: pa.Array, tmp_path: Path) -> None:
    assert refused(patients().set_column(1, "age", column), "'age' is of type .* not published", tmp_path).hint


def test_mixed_types_in_a_pandas_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "age": [1, "two"], "sex": ["F", "M"], "disease": ["x", "y"]})
    refused(frame, "cannot be read", tmp_path)


def test_files_of_a_folder_with_other_types(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(patients(), tmp_path / "in" / "a.parquet")
    ages = pa.array([str(k) for k in range(300)])
    pq.write_table(patients().set_column(1, "age", ages), tmp_path / "in" / "b.parquet")
    assert refused(tmp_path / "in", "'b.parquet' has other columns or types than 'a.parquet'", tmp_path).hint


def test_something_that_is_no_table(tmp_path: Path) -> None:
    refused([1, 2, 3], "not a list", tmp_path, UsageError)
    refused(tmp_path / "nowhere.parquet", "There is no table", tmp_path, UsageError)
    refused(csv(GOOD, tmp_path, "t.xlsx"), "of a kind that is not read", tmp_path, UsageError)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "holds no .parquet file", tmp_path, UsageError)


def test_a_folder_partitioned_by_name(tmp_path: Path) -> None:
    (tmp_path / "in" / "year=2020").mkdir(parents=True)
    pq.write_table(patients(), tmp_path / "in" / "year=2020" / "a.parquet")
    refused(tmp_path / "in", "columns in its folder names", tmp_path, UsageError)


# --- rows ---------------------------------------------------------------------------------------------------------


def test_an_empty_table(tmp_path: Path) -> None:
    pq.write_table(patients().slice(0, 0), tmp_path / "t.parquet")
    for table in (patients().slice(0, 0), tmp_path / "t.parquet", csv("name,age,sex,disease\n", tmp_path)):
        assert "empty" in refused(table, "'disease' has no value in any row", tmp_path).hint
    declared = make_policy({**ROLES, "disease": "sensitive; domain = ['flu', 'gout']"})
    refused(tmp_path / "t.parquet", "no rows", tmp_path, policy=declared)


@pytest.mark.parametrize(
    ("name", "text"), [("t.csv", b""), ("t.csv.gz", gzip.compress(b"", mtime=0)), ("t.csv", b"\n\n")]
)
def test_a_file_without_a_header(name: str, text: bytes, tmp_path: Path) -> None:
    refused(csv(text, tmp_path, name), "no header line", tmp_path)


def test_a_parquet_file_of_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"")
    assert refused(tmp_path / "t.parquet", "cannot be read", tmp_path).hint


def test_one_value_only(tmp_path: Path) -> None:
    table = patients().set_column(3, "disease", [["flu"] * 300])
    assert "Declare" in refused(table, "'disease' has one value only", tmp_path).hint


def test_all_rows_left_out(tmp_path: Path) -> None:
    table = patients().set_column(1, "age", pa.nulls(300, pa.int64()))
    policy = make_policy({**ROLES, "age": "other; missing = 'drop'"})
    with pytest.raises(TableError, match="row"):
        released(table, policy, folder=tmp_path / "r")
    assert listing(tmp_path) == []


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("n,1,F\n", "3 fields instead of 4"),
        ("n,1,F,flu,x\n", "5 fields instead of 4"),
        ('"n,1,F,flu\n', "a quote is never closed"),
        ('n,1,F,"flu\n', "a quote is never closed"),
        ('n,1,F,"flu', "a quote is never closed"),
        ('n,1,F,"', "a quote is never closed"),
    ],
)
@pytest.mark.parametrize("tail", ["", GOOD.split("\n", 1)[1]], ids=["at the end", "in the middle"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_broken_line_is_named(line: str, what: str, tail: str, packed: bool, tmp_path: Path) -> None:
    text = (GOOD + line + ("" if not tail or line.endswith("\n") else "\n") + tail).encode()
    path = csv(gzip.compress(text) if packed else text, tmp_path, "t.csv.gz" if packed else "t.csv")
    assert refused(path, rf"line 62: {what}", tmp_path).hint


def test_rows_swallowed_by_an_open_quote_never_become_a_value(tmp_path: Path) -> None:
    """Arrow reads an unclosed quote in the last column to the end of the file: all names would be published."""
    text = GOOD.replace("n5,5,F,flu\n", 'n5,5,F,"flu\n')
    refused(csv(text, tmp_path), "line 7: a quote is never closed", tmp_path)
    last = make_policy({"age": "other", "sex": "other", "disease": "sensitive", "name": "identifier"})
    lines = [line.split(",") for line in text.splitlines()]
    turned = "".join(",".join([*fields[1:], fields[0]]) + "\n" for fields in lines)
    turned = turned.replace('"flu,n5', 'flu,"n5')
    refused(csv(turned, tmp_path, "u.csv"), "a quote is never closed", tmp_path, policy=last)


def test_quotes_that_are_closed_are_fine(tmp_path: Path) -> None:
    odd = '"say ""a"", b",1,"F\nG",flu\n5" pipe,2,F,"gout"\n'
    release = released(csv(GOOD + odd, tmp_path), make_policy({**ROLES, "name": "other"}), folder=tmp_path / "r")
    names = release.to_arrow()["name"].to_pylist()
    assert {'say "a", b', '5" pipe'} <= set(names)
    assert release.manifest.data.rows == 62


def test_a_header_over_two_lines(tmp_path: Path) -> None:
    text = GOOD.replace("name", '"na\nme"', 1)
    policy = Policy.model_validate(
        {
            "columns": {"na\nme": {"role": "identifier"}}
            | {name: {"role": role} for name, role in ROLES.items() if name != "name"}
            | {"age": {"role": "quasi_identifier", "publish_as_is": "a test follows rows by it"}},
            "method": {"name": "uniform"},
            "requirement": {"rho1": 0.2, "rho2": 0.5},
        }
    )
    assert released(csv(text, tmp_path), policy, folder=tmp_path / "r").manifest.data.rows == 60


@pytest.mark.parametrize("where", [1, 2, 40, 61])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_line_that_is_not_utf8_is_named(where: int, packed: bool, tmp_path: Path) -> None:
    lines = GOOD.encode().splitlines(keepends=True)
    lines[where - 1] = lines[where - 1].replace(b"F", b"\xe9").replace(b"sex", b"s\xe9x")
    text = b"".join(lines)
    path = csv(gzip.compress(text) if packed else text, tmp_path, "t.csv.gz" if packed else "t.csv")
    assert "UTF-8" in refused(path, rf"line {where}: not UTF-8 text", tmp_path).hint


def test_another_encoding_and_noise(tmp_path: Path) -> None:
    refused(csv(GOOD.encode("utf-16"), tmp_path), "line 1: not UTF-8", tmp_path)
    refused(csv(b"\x93\x80" + bytes(range(256)) * 20, tmp_path), "line 1: not UTF-8", tmp_path)
    refused(csv("q" * 200_000 + "\n" + GOOD, tmp_path), "none of the columns", tmp_path)


def test_a_damaged_gzip_file(tmp_path: Path) -> None:
    packed = gzip.compress((GOOD + "".join(f"{os.urandom(6).hex()},1,F,flu\n" for _ in range(5000))).encode())
    refused(csv(GOOD, tmp_path, "t.csv.gz"), "cannot be read", tmp_path)
    refused(csv(packed[: len(packed) // 2], tmp_path, "t.csv.gz"), "t.csv.gz", tmp_path)
    for place in (30, len(packed) // 2):
        broken = bytearray(packed)
        broken[place : place + 30] = bytes(30)
        refused(csv(bytes(broken), tmp_path, "t.csv.gz"), "t.csv.gz", tmp_path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.999])
def test_a_truncated_parquet_file(share: float, tmp_path: Path) -> None:
    pq.write_table(patients(2000), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[: int(len(content) * share)])
    assert "damaged" in refused(tmp_path / "t.parquet", "cannot be read", tmp_path).hint


@pytest.mark.parametrize("column", ["disease", "age"])
@pytest.mark.parametrize("checksums", [False, True])
def test_a_parquet_file_with_a_damaged_page(column: str, checksums: bool, tmp_path: Path) -> None:
    """Found when the page is read: while counting, or only while publishing. One flipped bit needs checksums."""
    pq.write_table(
        patients(5000), tmp_path / "t.parquet", row_group_size=1000, compression="zstd", write_page_checksum=checksums
    )
    meta = pq.read_metadata(tmp_path / "t.parquet")
    chunk = meta.row_group(3).column(meta.schema.names.index(column))
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    if checksums:
        content[chunk.data_page_offset + chunk.total_compressed_size // 3] ^= 1
    else:
        content[chunk.data_page_offset : chunk.data_page_offset + 200] = bytes(200)
    (tmp_path / "t.parquet").write_bytes(content)
    refused(tmp_path / "t.parquet", "cannot be read", tmp_path)


# --- policies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "match"),
    [
        ("rho1 = 0.5\nrho2 = 0.2", "rho1 = 0.5 is not below rho2 = 0.2"),
        ("rho1 = 0.2\nrho2 = 0.2", "rho1 = 0.2 is not below rho2 = 0.2"),
        ("rho1 = nan\nrho2 = 0.2", "finite number"),
        ("rho1 = 0.1\nrho2 = inf", "finite number"),
        ("rho1 = -0.1\nrho2 = 0.2", "between 0 and 1"),
        ("rho1 = 0\nrho2 = 0.2", "between 0 and 1"),
        ("rho1 = 0.1\nrho2 = 1", "between 0 and 1"),
        ("rho1 = '1/0'\nrho2 = 0.2", "finite number"),
        ("rho1 = 'a tenth'\nrho2 = 0.2", "finite number"),
        ("rho1 = true\nrho2 = 0.2", "rho1"),
        ("rho2 = 0.2", "rho1 and rho2 go together"),
        ("rho1 = 0.2", "rho1 and rho2 go together"),
        ("gamma = 1", "gamma must be above 1"),
        ("gamma = -2", "gamma must be above 1"),
        ("gamma = nan", "finite number"),
        ("gamma = inf", "finite number"),
        ("epsilon = 0", "epsilon must be above 0"),
        ("epsilon = -1", "epsilon must be above 0"),
        ("epsilon = inf", "finite number"),
        ("epsilon = 41", "at most 40"),
        ("gamma = 3\nepsilon = 1", "state one requirement"),
        ("tolerance = 3", "a tolerance needs rho1"),
        ("tolerance = 1\nrho1 = 'observed'", "tolerance must be above 1"),
        ("tolerance = nan\nrho1 = 'observed'", "finite number"),
        ("gamma = 3\nrho = 1", "not known; did you mean 'rho"),
    ],
)
def test_an_impossible_requirement(requirement: str, match: str) -> None:
    with pytest.raises(PolicyError, match=match):
        make_policy(ROLES, requirement)


@pytest.mark.parametrize(
    ("role", "match"),
    [
        ("sensitive; bins = { width = 0 }", "width must be positive"),
        ("sensitive; bins = { width = -1 }", "width must be positive"),
        ("sensitive; bins = { width = nan }", "finite"),
        ("sensitive; bins = { width = inf }", "finite"),
        ("sensitive; bins = { breaks = [2, 1] }", "ascending"),
        ("sensitive; bins = { breaks = [1, 1] }", "ascending"),
        ("sensitive; bins = { breaks = [1, nan] }", "finite"),
        ("sensitive; bins = { }", "either a width or breaks"),
        ("sensitive; bins = { width = 1, breaks = [1] }", "either a width or breaks"),
        ("sensitive; missing = 'ignore'", "missing"),
        ("secret", "role"),
    ],
)
def test_an_impossible_column(role: str, match: str) -> None:
    with pytest.raises(PolicyError, match=match):
        make_policy({**ROLES, "disease": role})


@pytest.mark.parametrize("floor", ["nan", "inf", "-0.1", "1.1", "'x'"])
def test_an_impossible_floor(floor: str) -> None:
    with pytest.raises(PolicyError, match="retention_floor"):
        Policy.parse(
            f"[columns.s]\nrole = 'sensitive'\n[method]\nname = 'uniform'\nretention_floor = {floor}\n"
            "[requirement]\ngamma = 3"
        )


def test_a_domain_that_names_a_value_twice(tmp_path: Path) -> None:
    policy = make_policy({**ROLES, "disease": "sensitive; domain = ['flu', 'gout', 'flu']"})
    with pytest.raises(PolicyError, match="more than once"):
        profile(scan(patients(), policy))


# --- names of files -----------------------------------------------------------------------------------------------

NO_UTF8 = os.fsdecode("Müller".encode("latin-1"))
"""As programs of Western Europe named files, before UTF-8."""


def is_named(folder: Path) -> bool:
    """Whether the disk takes such names."""
    try:
        (folder / NO_UTF8).mkdir()
    except OSError:
        return False
    (folder / NO_UTF8).rmdir()
    return True


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "folder", "in a folder"])
def test_a_table_whose_name_is_no_utf8(kind: str, tmp_path: Path) -> None:
    if not is_named(tmp_path):
        pytest.skip("the disk takes UTF-8 alone")
    folder = {"folder": tmp_path / NO_UTF8, "in a folder": tmp_path / "tables"}.get(kind, tmp_path)
    folder.mkdir(exist_ok=True)
    suffix = kind if "folder" not in kind else "parquet"
    file = folder / f"{NO_UTF8 if kind != 'folder' else 't'}.{suffix}"
    if suffix == "parquet":
        with open(file, "wb") as content:
            pq.write_table(patients(60), content)
    else:
        file.write_bytes(gzip.compress(GOOD.encode()) if suffix == "csv.gz" else GOOD.encode())
    refused(folder if "folder" in kind else file, "not UTF-8 text", tmp_path)


def test_a_release_whose_name_is_no_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither written nor opened: a query would end in an error of the database."""
    if not is_named(tmp_path):
        pytest.skip("the disk takes UTF-8 alone")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        released(patients(60), make_policy(ROLES), folder=tmp_path / NO_UTF8)
    assert listing(tmp_path) == []
    released(patients(60), make_policy(ROLES), folder=tmp_path / "r")
    (tmp_path / "r").rename(tmp_path / NO_UTF8)
    with pytest.raises(ReleaseError, match="not UTF-8 text"):
        open_release(tmp_path / NO_UTF8)
    (tmp_path / "above").mkdir()
    (tmp_path / NO_UTF8).rename(tmp_path / "above" / "r")
    (tmp_path / "above").rename(tmp_path / NO_UTF8)
    monkeypatch.chdir(tmp_path / NO_UTF8)
    with pytest.raises(ReleaseError, match="not UTF-8 text"):
        open_release("r")
