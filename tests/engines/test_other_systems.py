"""Systems that lack what Linux has, and settings that must not matter: the release is the same to the byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.engines.tools import patients
from tests.faults.test_ends import POLICY

WITHOUT = """
import os, signal, sys
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None          # importing it raises ImportError
for name in ("O_NOFOLLOW", "O_DIRECTORY", "fork", "register_at_fork", "getuid", "geteuid", "mkfifo"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGPIPE", "SIGUSR1", "SIGALRM"):
    delattr(signal, name)
def refuse(*_, **__):
    raise OSError(95, "Operation not supported")
os.link = refuse
"""
PUBLISH = """
from sfumato.cli.main import main
sys.argv = ["sfumato", *sys.argv[1:]]
main()
"""


def ran(folder: Path, code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with every warning an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


def test_one_machine_works_without_locks_limits_and_links(folder: Path) -> None:
    """As on Windows: no fcntl, no resource, no SIGHUP, no O_NOFOLLOW; also a disk without hard links."""
    for arguments in (
        ("init", "t.parquet", "-o", "proposed.toml"),
        ("key", "draws.key"),
        ("key", "--sign", "h"),
        ("plan", "t.parquet", "policy.toml", "-o", "plan.json"),
        ("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r", "--sign", "h"),
        ("verify", "r", "--signer", "h.pub"),
        ("estimate", "r", "--by", "disease"),
        ("audit", "t.parquet", "policy.toml", "r", "-o", "audit.json"),
    ):
        done = ran(folder, WITHOUT + PUBLISH, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        assert "Warning" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == sorted([
        "audit.json", "draws.key", "h", "h.pub", "plan.json", "policy.toml", "proposed.toml", "r", "t.parquet"
    ])  # fmt: skip


SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "C": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "Turkish": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    "far east": {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1"},
    "far west": {"TZ": "Etc/GMT+12", "PYTHONHASHSEED": "2", "COLUMNS": "40"},
}


def test_no_locale_time_zone_or_hash_seed_changes_a_release(folder: Path) -> None:
    """Seeded data are equal to the byte; manifests but for the random name and the checksum of the README with it."""
    found = set()
    for number, environment in enumerate(SETTINGS.values()):
        arguments = ("publish", "t.parquet", "policy.toml", "--seed", "1", "--shuffle", "-o", f"r{number}")
        done = ran(folder, "import sys\n" + PUBLISH, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        release = folder / f"r{number}"
        lines = (release / "manifest.json").read_text(encoding="utf-8").splitlines()
        stated = [line for line in lines if '"release_id"' not in line and '"readme_sha256"' not in line]
        assert len(lines) - len(stated) == 2
        found.add((hashlib.sha256((release / "data.parquet").read_bytes()).hexdigest(), "\n".join(stated)))
    assert len(found) == 1
