"""A Spark session for the command line: found or started, quiet, and refused in our words."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.release import spark_session
from sfumato.release.spark_session import parsed, session
from tests.engines.tools import patients, released
from tests.spark.conftest import SETTINGS


def test_settings_are_read_from_texts() -> None:
    assert parsed([" a.b = c=d ", "e="]) == {"a.b": "c=d", "e": ""}
    for wrong in ("a", "=b", " = c"):
        with pytest.raises(UsageError, match=r"key=value\.\nE\.g\. --conf"):
            parsed([wrong])


def test_the_running_session_is_taken_and_left_running(spark: Any) -> None:
    with session() as found:
        assert found is spark
    assert spark.range(3).count() == 3
    for master, conf in (("local[1]", {}), (None, {"spark.x": "y"})):
        with pytest.raises(UsageError, match="too late"), session(master, conf):
            raise AssertionError


def test_a_session_means_utc_and_shows_nothing(spark: Any) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"


# --- what a new one needs ---------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the session of the other tests."""
    monkeypatch.setattr(spark_session, "_running", lambda: None)


def refused(master: str | None = None, conf: dict[str, str] | None = None) -> str:
    with pytest.raises(UsageError) as told, session(master, conf or {}):
        raise AssertionError
    return str(told.value)


def test_pyspark_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert refused().endswith("pip install 'sfumato[spark]'")


def test_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.2")
    assert "needs pyspark 4.2 or later, and 4.1.2 is installed" in refused()
    monkeypatch.setattr("pyspark.__version__", "3.12.0.dev0")
    assert "and 3.12.0.dev0 is installed" in refused()


def test_java_is_asked_for(nothing_runs: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is none on the PATH" in refused()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"there is none in JAVA_HOME, {str(tmp_path)!r}" in refused()


@pytest.mark.parametrize(("says", "told"), [('java version "1.8.0_202"', "version 8"), ("no idea", "'no idea'")])
def test_old_java_is_refused(
    says: str, told: str, nothing_runs: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"Spark needs Java 17 or later; {java} is {told}." in refused()


def test_a_master_that_does_not_answer_is_told_at_once(nothing_runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert f"No Spark master answers at 'spark://127.0.0.1:{port}'." in refused(f"spark://127.0.0.1:{port}")
    assert "is not the address of a Spark master" in refused("spark://somewhere")
    assert "Spark Connect" in refused("sc://somewhere")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    assert "HADOOP_CONF_DIR" in refused("yarn")


# --- the command line -------------------------------------------------------------------------------------------------


def sfumato(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from sfumato.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_a_command_starts_spark_and_says_nothing_of_it(tmp_path: Path) -> None:
    release = released(patients(), folder=tmp_path / "r")
    query = "SELECT disease, COUNT(*) FROM release GROUP BY disease"
    conf = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    spark = ["--engine", "spark", "--master", "local[1]", *conf]
    done = sfumato("estimate", str(release.folder), query, "--json", *spark)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == release.sql(query).to_dict()


def test_options_of_spark_need_the_engine(tmp_path: Path) -> None:
    release = str(released(patients(), folder=tmp_path / "r").folder)
    for options, told in (
        (["--master", "local[1]"], "Add --engine spark"),
        (["--conf", "a=b"], "Add --engine spark"),
        (["--engine", "flink"], "Engines are embedded, spark"),
        (["--engine", "spark", "--conf", "a"], "is not of the form key=value"),
    ):
        with pytest.raises(UsageError, match=told):
            CliRunner().invoke(app, ["estimate", release, "--by", "disease", *options], catch_exceptions=False)
