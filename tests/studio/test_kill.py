"""A server that is killed, or a job that is cancelled, in the middle of a publication: nothing half-made stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli.demo import POLICY, clinic
from sfumato.errors import UsageError
from sfumato.studio.desk.app import desk_app
from sfumato.studio.desk.desk import Desk, open_desk
from sfumato.studio.web.guard import Keys
from tests.studio.served import Served, served

SERVER = """
import sys
from pathlib import Path
from sfumato.cli.studio import studio
if __name__ == "__main__":
    studio(Path(sys.argv[1]), Path(sys.argv[2]), None, None, 0, False, True)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that takes some seconds to publish as CSV."""
    folder = tmp_path_factory.mktemp("large")
    part = clinic(20_000)
    pq.write_table(pa.concat_tables([part] * 75), folder / "clinic.parquet")
    (folder / "policy.toml").write_text(POLICY + '\n[output]\nformat = "csv"\n')
    return folder


def _copied(large: Path, folder: Path) -> tuple[Path, Path]:
    """Return the table and the policy in a folder of their own."""
    os.link(large / "clinic.parquet", folder / "clinic.parquet")
    (folder / "policy.toml").write_text((large / "policy.toml").read_text())
    return folder / "clinic.parquet", folder / "policy.toml"


def _until(condition: Callable[[], object]) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come about within two minutes")


def _prepare(site: Served) -> None:
    """Make the plan."""
    seen = re.findall(r'name="seen" value="([^"]+)"', site.get("/sign").text)[0]
    site.post("/sign/prepare", [("seen", seen)])
    _until(lambda: 'data-job="idle"' in site.get("/job").text)


def _publishing(site: Served, folder: Path) -> None:
    """Sign, and wait until rows are being written."""
    page = site.get("/sign").text
    numbers, plans = (re.findall(rf'name="{name}" value="(\w+)"', page) for name in ("accept", "plan_hash"))
    fields = [*(("accept", number) for number in numbers), ("plan_hash", plans[0])]
    fields += [("name", "R. Stone"), ("output", "release")]
    assert site.post("/sign/publish", fields).status == 303
    _until(lambda: any(file.stat().st_size for file in folder.glob(".release.partial-*/release/*")))


def _leftovers(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.name.startswith((".", "release"))]


@pytest.fixture
def prepared(large: Path, tmp_path: Path) -> Iterator[tuple[Desk, Served]]:
    desk = open_desk(*_copied(large, tmp_path), None)
    with served(lambda csrf: desk_app(desk, csrf)) as site:
        site.post("/sign/prepare", [("seen", desk.workspace.name)])
        desk.jobs.wait()
        assert desk.workspace.is_current("plan"), desk.jobs.last
        yield desk, site


def test_a_publication_that_is_cancelled_leaves_nothing(prepared: tuple[Desk, Served]) -> None:
    desk, site = prepared
    _publishing(site, desk.workspace.folder)
    assert site.post("/cancel", [("back", "/sign")]).status == 303
    desk.jobs.wait()
    assert _leftovers(desk.workspace.folder) == []
    assert "Publishing was cancelled" in site.get("/sign").text
    assert desk.workspace.made("release") is None


@contextmanager
def _server(folder: Path, table: Path, policy: Path) -> Iterator[tuple[subprocess.Popen[str], Served]]:
    """Start a studio as the command line does, let a browser in, and kill it at last."""
    (folder / "server.py").write_text(SERVER)
    server = subprocess.Popen(
        [sys.executable, str(folder / "server.py"), str(table), str(policy)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        told = "".join(server.stdout.readline() for _ in range(4))
        opened = json.loads(told)
        port, page = int(re.findall(r":(\d+)/", opened["address"])[0]), Path(opened["file"]).read_text()
        token = re.findall(r"token=([\w-]+)", page)[0]
        assert token not in told  # nor in the arguments of a process
        site = Served(port, Keys(lambda token: None), [token])
        site.enter()
        site.keys.csrf = re.findall(r'name="csrf" content="([\w-]+)"', site.get("/sign").text)[0]
        yield server, site
    finally:
        server.send_signal(signal.SIGKILL)
        server.communicate()


def test_a_server_that_is_killed_leaves_no_half_release_and_goes_on(large: Path, tmp_path: Path) -> None:
    table, policy = _copied(large, tmp_path)
    folder = tmp_path / "clinic-studio"
    with _server(tmp_path, table, policy) as (_, site):
        _prepare(site)
        _publishing(site, folder)
    _until(lambda: not _leftovers(folder))  # its process notices, and takes back what it wrote
    again = open_desk(table, None, None)
    assert again.workspace.is_current("plan")
    assert json.loads((folder / "state.json").read_text())["made"]["plan"] == "plan.json"
    with served(lambda csrf: desk_app(again, csrf)) as site:
        _publishing(site, folder)
        again.jobs.wait()
        assert again.workspace.made("release") == folder / "release"


def test_a_server_and_its_job_that_are_killed_leave_what_the_next_one_removes(large: Path, tmp_path: Path) -> None:
    table, policy = _copied(large, tmp_path)
    folder = tmp_path / "clinic-studio"
    with _server(tmp_path, table, policy) as (server, site):
        _prepare(site)
        _publishing(site, folder)
        for task in Path(f"/proc/{server.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        server.kill()
    assert _leftovers(folder) != []
    assert open_desk(table, None, None).workspace.made("release") is None
    assert _leftovers(folder) == []


def test_two_studios_do_not_share_a_folder(large: Path, tmp_path: Path) -> None:
    table, policy = _copied(large, tmp_path)
    with _server(tmp_path, table, policy) as (server, _):
        before = (tmp_path / "clinic-studio" / "state.json").read_text()
        with pytest.raises(
            UsageError, match=f"Another studio is open on .*clinic-studio': process {server.pid} on"
        ) as told:
            open_desk(table, policy, None)
        assert "ctrl-C in its terminal" in told.value.hint
        assert "--folder NEW" in told.value.hint
        assert (tmp_path / "clinic-studio" / "state.json").read_text() == before
        assert open_desk(table, policy, tmp_path / "other").workspace.name == "policy-0001.toml"
    assert open_desk(table, None, None).workspace.name == "policy-0001.toml"  # killed, and the lock is free
