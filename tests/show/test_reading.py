"""Text that somebody named is read to an end that is known: no device, no pipe that never stops."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.auditor.report.reporting import load_record
from sfumato.errors import SfumatoError
from sfumato.methods import load_plan
from sfumato.methods.generalization import read_hierarchy
from sfumato.methods.method import csv_lines
from sfumato.publisher.policy import Policy
from sfumato.release.certificate import load_certificate
from sfumato.show import reading
from tests.constants import set_constants

READERS: dict[str, Callable[[Path], object]] = {
    "policy": Policy.load,
    "plan": load_plan,
    "certificate": load_certificate,
    "audit": load_record,
    "matrix or prior": lambda path: csv_lines(path, "Priors are"),
    "hierarchy": lambda path: read_hierarchy(path, "sex", ["F"]),
}
ENDLESS = Path("/dev/zero")
MEGABYTE = 1 << 20


@pytest.mark.skipif(not ENDLESS.exists(), reason="has no file without an end")
@pytest.mark.parametrize("kind", READERS)
def test_a_device_is_not_read(kind: str) -> None:
    with pytest.raises(SfumatoError) as caught:
        READERS[kind](ENDLESS)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_a_device_is_told_as_one() -> None:
    with pytest.raises(ValueError, match="it is a device, not a file"):
        reading.read_text("/dev/null")


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    assert piped("α" * 100_000, tmp_path) == "α" * 100_000


def test_a_pipe_without_an_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.show", LONGEST_TEXT=MEGABYTE)
    with pytest.raises(ValueError, match="it has more than 1,048,576 bytes"):
        piped("x" * (4 * MEGABYTE), tmp_path)
    (tmp_path / "file").write_text("x" * (MEGABYTE + 1))
    with pytest.raises(ValueError, match="it has more than 1,048,576 bytes"):
        reading.read_text(tmp_path / "file")


def piped(text: str, folder: Path) -> str:
    """Return what is read of a pipe that somebody else writes this text to, as long as it is read."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        try:
            pipe.write_text(text, encoding="utf-8")
        except BrokenPipeError:
            return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return reading.read_text(pipe)
    finally:
        writer.join()


def test_a_mark_before_the_first_value_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\n")
    assert list(reading.read_csv(tmp_path / "t.csv")) == [["a", "b"], ["1", "2"]]


def test_line_ends_of_texts_are_alike_and_those_of_values_stay(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a\r\nb\r"c\r\nd"\n')
    assert reading.read_text(tmp_path / "t.csv") == 'a\nb\n"c\nd"\n'
    assert list(reading.read_csv(tmp_path / "t.csv")) == [["a"], ["b"], ["c\r\nd"]]
