"""No key is in what a command prints, in a file that it writes, or in what Python shows of an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato.publisher.signing import SigningKey
from sfumato.values.randomness import SecretKey
from tests.cli.test_commands import through_main
from tests.engines.tools import patients
from tests.faults.test_ends import POLICY
from tests.spark.secrecy import forms, found, places

KEYED = 'record_key = "name"\nseries = "clinic"\n' + POLICY
BROKEN = """
import sys
from sfumato.engines.rows import mapping
def fail(*_): raise KeyError("inside")
mapping.RowMapper._words = fail
from sfumato.cli.main import main
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a table, its policy and, in a folder of their own, both kinds of keys."""
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(KEYED)
    (tmp_path / "keys").mkdir()
    SecretKey.create(tmp_path / "keys" / "draws")
    SigningKey.create(tmp_path / "keys" / "sign")
    return tmp_path


def secrets_of(folder: Path) -> list[bytes]:
    signing = SigningKey.load(folder / "keys" / "sign").key.private_bytes_raw()
    return [SecretKey.load(folder / "keys" / "draws").secret, signing]


def test_a_key_is_in_no_output_and_no_file(folder: Path) -> None:
    published = ("publish", "t.parquet", "policy.toml", "--key-file", "keys/draws", "--sign", "keys/sign")
    told = b""
    for arguments, code in (
        (("plan", "t.parquet", "policy.toml", "-o", "plan.json", "--json"), 0),
        ((*published, "-o", "r", "--details"), 0),
        ((*published, "-o", "s", "--json"), 0),
        ((*published, "-o", "r"), 2),  # it exists
        (("verify", "r", "--signer", "keys/sign.pub", "--json"), 0),
        (("verify", "r", "--signer", "keys/sign"), 2),
        (("publish", "t.parquet", "policy.toml", "--key-file", "keys/sign", "-o", "q"), 2),
        (("publish", "t.parquet", "policy.toml", "--sign", "keys/draws", "-o", "q"), 2),
    ):
        done = through_main(folder, *arguments)
        assert done.returncode == code, done.stderr
        told += (done.stdout + done.stderr).encode()
    (folder / "told").write_bytes(told)
    for secret in secrets_of(folder):
        written = [place for place in places(secret, folder) if "/keys/" not in place]
        assert written == []
        assert places(secret, folder), "a search that finds it nowhere would prove nothing"


@pytest.mark.parametrize("traceback", ["", "1"])
def test_an_error_in_the_middle_shows_no_key(traceback: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if traceback:
        monkeypatch.setenv("SFUMATO_TRACEBACK", traceback)
    command = [sys.executable, "-c", BROKEN, "publish", "t.parquet", "policy.toml", "-o", "q"]
    command += ["--key-file", "keys/draws", "--sign", "keys/sign"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == (1 if traceback else 70), done.stderr
    for secret in secrets_of(folder):
        assert found(done.stdout + done.stderr, forms(secret)) == []
    assert not (folder / "q").exists()
