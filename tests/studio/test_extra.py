"""What the extra costs: at most 7 packages and a download of 1 MB more, and nothing of it where no page is opened."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement

MOST_PACKAGES, MOST_BYTES = 7, 1_000_000


def _needed(name: str, extra: str = "") -> set[str]:
    """Return the packages that are installed with one of them, by name."""
    found: set[str] = set()
    left = [(name, extra)]
    while left:
        package, asked = left.pop()
        for text in distribution(package).requires or ():
            needed = Requirement(text)
            named = re.sub(r"[-_.]+", "-", needed.name).lower()
            if (needed.marker is None or needed.marker.evaluate({"extra": asked})) and named not in found:
                found.add(named)
                left += [(named, each) for each in ("", *needed.extras)]
    return found


def _packed(package: Distribution) -> int:
    """Return about how large the wheel is: each of its files compressed as a wheel has it."""
    files = [file for file in package.files or () if file.suffix != ".pyc" and not str(file).startswith("..")]
    return sum(len(zlib.compress(file.read_binary())) + 2 * len(str(file)) + 100 for file in files)


def test_the_extra_brings_few_and_small_packages() -> None:
    more = _needed("sfumato", "studio") - _needed("sfumato")
    assert {"starlette", "uvicorn"} <= more
    assert len(more) <= MOST_PACKAGES, more
    sizes = {name: _packed(distribution(name)) for name in more}
    assert min(sizes.values()) > 10_000, sizes  # their files are there
    assert sum(sizes.values()) <= MOST_BYTES, sizes


def test_commands_that_open_no_page_load_nothing_of_it() -> None:
    script = """
import sys
from typer.testing import CliRunner
from sfumato.cli.main import app
shown = CliRunner().invoke(app, ["--help"])
assert shown.exit_code == 0 and "studio" in shown.output, shown
print([name for name in sys.modules if name.split(".")[0] in ("starlette", "uvicorn", "anyio", "h11", "jinja2")
       or name.startswith("sfumato.studio")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
