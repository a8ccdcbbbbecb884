"""Systems that lack what Linux has, and settings that must not matter: the release is the same to the byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import slow
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


WITHOUT_EXTRAS = """
import sys
HIDDEN = {"pandas", "polars", "pyspark", "sklearn", "starlette", "uvicorn", "statsmodels", "IPython"}
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""
DEVELOPMENT = ("-X", "dev", "-b")
"""More looks at memory, files that stay open, and bytes that are taken for text."""


def ran(
    folder: Path, code: str, *arguments: str, flags: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with every warning an error."""
    return subprocess.run(
        [sys.executable, *flags, "-W", "error", "-c", code, *arguments],
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


EVERYTHING = (
    ("init", "t.parquet", "-o", "proposed.toml"),
    ("profile", "t.parquet", "policy.toml"),
    ("plan", "t.parquet", "policy.toml", "-o", "plan.json"),
    ("publish", "t.parquet", "policy.toml", "--seed", "1", "-o", "r"),
    ("verify", "r"),
    ("estimate", "r", "SELECT sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY sex", "-o", "a.csv"),
    ("estimate", "r", "--by", "disease", "-o", "a.parquet", "--plot", "a.svg"),
    ("associate", "r", "--between", "sex,disease"),
    ("power", "r", "--by", "disease"),
    ("regress", "r", "disease == 'flu' ~ sex"),
    ("audit", "t.parquet", "policy.toml", "r", "--seed", "1", "-o", "audit.json"),
    ("report", "t.parquet", "policy.toml", "r", "--audit", "audit.json", "-o", "report.html"),
)


@pytest.mark.parametrize("flags", [(), slow(DEVELOPMENT)])
def test_every_command_works_without_what_is_extra(flags: Sequence[str], folder: Path) -> None:
    """Neither data frames nor Spark, scikit-learn and the studio need be installed; warnings are errors."""
    for arguments in EVERYTHING:
        done = ran(folder, WITHOUT_EXTRAS + PUBLISH, *arguments, flags=flags)
        assert (done.returncode if arguments[0] != "verify" else 0) == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert "Warning" not in done.stderr, (arguments, done.stderr)


def test_what_is_extra_is_asked_for_by_name(folder: Path) -> None:
    for arguments, package in (
        (("studio", "t.parquet", "--no-browser"), "studio"),
        (("plan", "t.parquet", "policy.toml", "--engine", "spark"), "spark"),
    ):
        done = ran(folder, WITHOUT_EXTRAS + PUBLISH, *arguments)
        assert done.returncode == 2
        assert f"sfumato[{package}]" in done.stderr


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


FOREIGN = """
[columns."Größe İ"]
role = "other"
publish_as_is = "a test"
[columns."diagnóstico"]
role = "sensitive"
domain = ["ışık", "ǆ", "中文", "é"]
[method]
name = "uniform"
[requirement]
gamma = 4
[output]
format = "csv"
"""


def test_no_setting_changes_what_letters_are_read_and_written(folder: Path) -> None:
    """Files are UTF-8 wherever they are read, whatever the system would take them for."""
    sizes, values = ["I", "i", "İ", "ß"] * 60, ["ışık", "ǆ", "中文", "é"] * 60
    lines = ["Größe İ,diagnóstico", *(f"{size},{value}" for size, value in zip(sizes, values, strict=True))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "foreign.toml").write_text(FOREIGN, encoding="utf-8")
    made, told = set(), set()
    for number, environment in enumerate([*SETTINGS.values(), {"LC_ALL": "C"}]):
        release, answer = f"f{number}", f"f{number}.csv"
        published = ("publish", "t.csv", "foreign.toml", "--seed", "1", "-o", release)
        asked = ("estimate", release, "--by", "diagnóstico", "--where", "\"Größe İ\" <> 'ß'", "-o", answer)
        # where Python is kept from UTF-8 by two settings, arguments are not read as such
        for arguments in (published, asked) if "PYTHONUTF8" not in environment else (published,):
            done = ran(folder, "import sys\n" + PUBLISH, *arguments, **environment)
            assert done.returncode == 0, (environment, done.stderr)
        made.add((folder / release / "data.csv").read_bytes())
        told |= {(folder / answer).read_bytes()} if (folder / answer).exists() else set()
    assert (len(made), len(told)) == (1, 1)
    assert "中文".encode() in told.pop()
