"""How the command ends: with a code of its own for its own mistakes, and as signals ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main as commands
from sfumato.cli.base import told_if_published
from tests.engines.tools import patients

POLICY = """
[columns.name]
role = "identifier"
[columns.age]
role = "drop"
[columns.sex]
role = "other"
[columns.disease]
role = "sensitive"
[method]
name = "uniform"
[requirement]
gamma = 3
"""
MAIN = "from sfumato.cli.main import main; main()"


def ended(problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command in which something raises; return the exit code and what was told."""

    def fail(**_: object) -> None:
        raise problem

    monkeypatch.setattr(commands, "app", fail)
    monkeypatch.setattr(sys, "argv", ["sfumato"])
    with pytest.raises(SystemExit) as end:
        commands.main()
    assert isinstance(end.value.code, int)
    return end.value.code, capsys.readouterr().err


def test_a_mistake_of_the_program_has_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an unforeseen error says may hold values of the table: it is not repeated."""
    code, told = ended(KeyError("HIV"), monkeypatch, capsys)
    assert code == 70
    assert told.startswith("InternalError: sfumato made a mistake (KeyError")
    assert "as an issue of the repository where you got sfumato" in told
    assert "SECURITY.md there says how" in told
    assert "HIV" not in told
    assert "Traceback" not in told
    monkeypatch.setenv("SFUMATO_TRACEBACK", "1")
    with pytest.raises(KeyError):
        commands.main()


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (MemoryError(), 1, "Memory ran out"),
        (duckdb.OutOfMemoryException("no room"), 1, "Memory ran out"),
        (RuntimeError("can't start new thread"), 2, "no more threads"),
        (RecursionError(), 2, "nested too deeply"),
        (ValueError("Exceeds the limit (4300 digits) for integer string conversion"), 2, "thousands of digits"),
        (ValueError("something else"), 70, "ValueError"),
    ],
)
def test_what_an_input_can_do_is_told_as_such(
    problem: Exception, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, told = ended(problem, monkeypatch, capsys)
    assert found == code
    assert words in told


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.toml", "a = " + "[" * 50_000),
        ("long.toml", "version = " + "9" * 5000),
        ("deep.json", "[" * 200_000),
    ],
)
def test_files_of_any_depth(name: str, text: str, tmp_path: Path) -> None:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / name).write_text(text)
    policy, plan = (name, []) if name.endswith("toml") else ("policy.toml", ["--plan", name])
    command = [sys.executable, "-c", MAIN, "publish", "t.parquet", policy, "-o", "r", *plan]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


# --- signals ----------------------------------------------------------------------------------------------------------

WAITING = """
import signal, sys, time
from sfumato.cli import main as commands
def app(**_):
    print("ready", flush=True)
    {body}
commands.app = app
commands.main()
"""
SLEEP = "time.sleep(2); print('done', flush=True)"
BROKEN_IMPORT = "\n    try: time.sleep(30)\n    except KeyboardInterrupt: raise ImportError('half loaded')"


def after_signal(body: str, number: signal.Signals, ignored: bool) -> subprocess.CompletedProcess[str]:
    def ignore() -> None:
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-c", WAITING.replace("{body}", body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,  # noqa: PLW1509
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As `nohup` asks."""
    done = after_signal(SLEEP, signal.SIGHUP, ignored=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("body", [SLEEP, BROKEN_IMPORT], ids=["at work", "while a module is loaded"])
def test_a_polite_kill_ends_without_a_traceback(body: str) -> None:
    done = after_signal(body, signal.SIGTERM, ignored=False)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "Interrupted: nothing was published.\n"


LOADING = """
import os, sys
from importlib.metadata import EntryPoint
script, number, module = sys.argv[1:]
class Sending:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), int(number))
sys.meta_path.insert(0, Sending())
sys.argv[1:] = ["--version"]
EntryPoint("sfumato", script, "console_scripts").load()()
"""


def loading(number: signal.Signals, module: str, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """Start the command as it is installed; it gets a signal when it begins to load this module."""
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    return subprocess.run(
        [sys.executable, "-c", LOADING, pyproject["project"]["scripts"]["sfumato"], str(int(number)), module],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("module", ["sfumato.cli.main", "typer", "sfumato.cli.studio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_while_the_program_is_loaded_ends_it_quietly(number: signal.Signals, module: str) -> None:
    done = loading(number, module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted: nothing was published.\n")


def test_a_signal_that_is_ignored_does_not_end_the_loading() -> None:
    done = loading(signal.SIGHUP, "typer", ignored=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "before the signal came"),
        (MemoryError(), 1, "(MemoryError)"),
        (KeyError("HIV"), 1, ""),
    ],
)
def test_what_goes_wrong_behind_the_rename_does_not_deny_the_release(
    problem: BaseException,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Somebody who believed it would publish the table a second time, with other noise."""

    def published_and_stopped() -> None:
        with told_if_published(tmp_path / "r"):
            (tmp_path / "r").mkdir()
            raise problem

    monkeypatch.setattr(commands, "app", lambda **_: published_and_stopped())
    monkeypatch.setattr(sys, "argv", ["sfumato"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    told = capsys.readouterr().err
    assert ended.value.code == code
    assert "was published before" in told
    assert words in told
    assert "nothing was published" not in told
    assert "HIV" not in told


def test_a_library_that_makes_another_error_of_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    monkeypatch.setattr(commands, "app", lambda **_: interrupted())
    monkeypatch.setattr(sys, "argv", ["sfumato"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted: nothing was published.\n"


def started(body: str, arguments: list[str], redirected: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a shell, with its standard streams as the shell has them."""
    command = f'"$0" -c "$1" "${{@:2}}" {redirected}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command, sys.executable, body, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="by a shell")
@pytest.mark.parametrize("redirected", [">&-", "2>&-", "<&- >&- 2>&-", "| true", "2>&1 | true", "2>/dev/full"])
def test_output_that_nobody_takes_changes_neither_the_release_nor_the_exit_code(
    redirected: str, tmp_path: Path
) -> None:
    """Closed by whoever started the command, or left by its reader, as by `head`: exit code 1 would be a verdict."""
    (tmp_path / "policy.toml").write_text(POLICY)
    pq.write_table(patients(200), tmp_path / "t.parquet")
    release = tmp_path / "r"
    arguments = ["publish", str(tmp_path / "t.parquet"), str(tmp_path / "policy.toml"), "-o", str(release)]
    assert started(MAIN, arguments, redirected).returncode == 0
    assert started(MAIN, ["verify", str(release), "--json"], redirected).returncode == 0
    assert started(MAIN, ["verify", str(tmp_path / "none")], redirected).returncode == 2
    (release / "manifest.json").write_text(
        (release / "manifest.json").read_text().replace('"rows": 200', '"rows": 201')
    )
    assert started(MAIN, ["verify", str(release)], redirected).returncode == 1


@pytest.mark.skipif(os.name != "posix", reason="by a shell")
def test_no_file_gets_the_number_of_a_stream_that_was_closed(tmp_path: Path) -> None:
    """What a library prints would be written into it."""
    body = (
        "import sys; from sfumato.show.terminal import never_fail_to_print; never_fail_to_print()\n"
        "with open(sys.argv[1], 'w') as file: file.write(str(file.fileno()))"
    )
    assert started(body, [str(tmp_path / "told")], "<&- >&- 2>&-").returncode == 0
    assert int((tmp_path / "told").read_text()) > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no full device")
@pytest.mark.parametrize("asked", [[], ["--json"]])
def test_an_output_that_is_full_is_told_beside_it(asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    pq.write_table(patients(200), tmp_path / "t.parquet")
    done = started(MAIN, ["plan", str(tmp_path / "t.parquet"), str(tmp_path / "policy.toml"), *asked], ">/dev/full")
    assert done.returncode == 2
    assert "The output: No space left on device." in done.stderr
    assert "Traceback" not in done.stderr
    assert started(MAIN, ["verify", str(tmp_path / "none"), *asked], ">/dev/full").returncode == 2
