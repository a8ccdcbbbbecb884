"""The version is looked up once: a process that publishes often would keep up to 128 indexes of folders of modules."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from sfumato.values import software


def test_the_version_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    software.software.cache_clear()
    due = f"sfumato {version('sfumato')}"
    assert software.software() == due
    monkeypatch.setattr(software, "version", lambda _: pytest.fail("it was looked up again"))
    assert software.software() == due
