"""What a page needs beside Python files lies inside the package: it is part of what is installed."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(which("uv") is None, reason="uv builds the wheel")
def test_the_wheel_has_every_template_and_static_file(tmp_path: Path) -> None:
    done = subprocess.run(
        ["uv", "build", "--wheel", "--quiet", "--out-dir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    studio = ROOT / "src" / "sfumato" / "studio"
    needed = {file for kind in ("templates", "static") for file in studio.glob(f"*/{kind}/*") if file.is_file()}
    assert len(needed) > 30
    assert {file.relative_to(ROOT / "src").as_posix() for file in needed} | {"sfumato/py.typed"} <= names
