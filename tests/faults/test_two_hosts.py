"""Two hosts of their own names, processes and boots, publish to one folder: neither removes what the other writes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import open_release
from sfumato.publisher.whole_or_absent import BOOT_ID
from tests.engines.tools import listing, patients
from tests.faults.test_ends import POLICY

OWN = ["unshare", "--pid", "--uts", "--ipc", "--mount", "--fork", "--mount-proc"]
NO_LOCKS = "import fcntl; fcntl.flock = lambda *_: None; "
"""As on a disk that does not tell one host of the locks of another: whoever asks for one gets it."""
WAITING = """
import os, time
from sfumato.release.formats import parquet
close = parquet.ParquetWriter.close
def waiting(*args):
    print("ready", flush=True)
    time.sleep(600 if os.environ.get("FOREVER") else 0)
    return close(*args)
parquet.ParquetWriter.close = waiting
"""
PUBLISH = "publish t.parquet policy.toml -o out/r"
RUN = "from sfumato.cli.main import main; main()"


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*OWN, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_unshare(), reason="no namespaces of one's own: needs Linux, and root")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "out").mkdir()
    return tmp_path


def host(name: str, folder: Path, code: str, **environment: str) -> subprocess.Popen[str]:
    """Start a publication to out/r on a host of its own."""
    boot = folder / f"boot of {name}"
    boot.write_text(f"{uuid.uuid4()}\n")
    command = (
        f'hostname "$1" && mount --bind "$2" {BOOT_ID} && exec "$3" -c "$4" publish t.parquet policy.toml -o out/r'
    )
    return subprocess.Popen(
        [*OWN, "sh", "-c", command, "host", name, str(boot), sys.executable, NO_LOCKS + code + RUN],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_what_another_host_writes_stays(folder: Path) -> None:
    first = host("first", folder, WAITING, FOREVER="1")
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        (alive,) = (name for name in os.listdir(folder / "out") if name.startswith(".r.partial-"))
        written = listing(folder / "out" / alive)
        second = host("second", folder, "")
        told = second.communicate(timeout=120)
        assert second.returncode == 0, told
        assert listing(folder / "out" / alive) == written
        assert open_release(folder / "out" / "r").verify().holds
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate(timeout=30)


def test_two_at_once_make_one_release(folder: Path) -> None:
    both = [host(name, folder, "") for name in ("first", "second")]
    ended = [(one.communicate(timeout=240), one.returncode) for one in both]
    assert sorted(code for _, code in ended) == [0, 2], ended
    assert open_release(folder / "out" / "r").verify().holds
    assert os.listdir(folder / "out") == ["r"]
