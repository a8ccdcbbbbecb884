"""What is built from one copy of the source is the same to the byte, and holds what users need and no more."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"sfumato": ROOT, "sfumato_papers": ROOT / "papers"}


@pytest.mark.skipif(which("uv") is None, reason="uv builds the wheel")
@pytest.mark.parametrize("package", PACKAGES)
def test_two_builds_are_one_wheel(package: str, tmp_path: Path) -> None:
    built = []
    for number in "12":
        out = tmp_path / number
        command = ["uv", "build", "--wheel", "--quiet", "--out-dir", str(out), str(PACKAGES[package])]
        environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "TZ": f"Etc/GMT+{number}"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        built.append(next(out.glob("*.whl")))
    first, second = built
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as packed:
        names = packed.namelist()
    assert f"{package}/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {package}
