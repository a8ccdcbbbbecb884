"""The private folder of a desk: every state of the policy is a file, and a journal tells what was done with them.

Nothing is overwritten: a new state is a new file, and undo goes back to an earlier one. The folder is all that a desk
needs to go on after its server has ended, in whatever way.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError
from sfumato.show.private import private_folder, write_private

STATE, JOURNAL, POLICIES = "state.json", "journal.jsonl", "policies"


class Workspace:
    """The states of a policy in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for each in (folder, folder / POLICIES):
            private_folder(each)
        self._lock = threading.RLock()  # pages and jobs change it in threads of their own
        self._done, self._undone, self._made = self._stored()

    def _stored(self) -> tuple[list[int], list[int], dict[str, str]]:
        file = self.folder / STATE
        if not file.exists():
            return [], [], {}
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
            done, undone = ([int(number) for number in raw[name]] for name in ("done", "undone"))
            made = {str(what): str(name) for what, name in raw["made"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(
                f"{str(file)!r} is damaged: it does not tell which policies were tried.",
                f"The policies are in {str(self.folder / POLICIES)!r}. Start with one of them in another folder.",
            ) from None
        return done, undone, made

    # --- states -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether there is no policy yet."""
        return not self._done

    @property
    def file(self) -> Path:
        """The file of the policy as it stands."""
        return self._file(self._done[-1])

    @property
    def text(self) -> str:
        """The policy as it stands."""
        return self.file.read_text(encoding="utf-8")

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier state."""
        return len(self._done) > 1

    @property
    def can_redo(self) -> bool:
        """Whether a state was undone."""
        return bool(self._undone)

    def keep(self, text: str, why: str) -> None:
        """Make this the state, unless it is already."""
        with self._lock:
            if not self.is_empty and text == self.text:
                return
            number = 1 + max([*self._numbers(), 0])
            write_private(self._file(number), text)
            self._move([*self._done, number], [])
            self.note(why, policy=self._file(number).name)

    def undo(self) -> None:
        """Go back to the state before, if there is one."""
        with self._lock:
            if self.can_undo:
                *done, last = self._done
                self._move(done, [*self._undone, last])
                self.note("undo", policy=self.file.name)

    def redo(self) -> None:
        """Take back the last undo, if nothing was changed since."""
        with self._lock:
            if self._undone:
                *undone, last = self._undone
                self._move([*self._done, last], undone)
                self.note("redo", policy=self.file.name)

    def _move(self, done: list[int], undone: list[int]) -> None:
        self._done, self._undone = done, undone
        self._store()

    def _store(self) -> None:
        write_private(self.folder / STATE, json.dumps({"done": self._done, "undone": self._undone, "made": self._made}))

    def _file(self, number: int) -> Path:
        return self.folder / POLICIES / f"policy-{number:04}.toml"

    def _numbers(self) -> list[int]:
        names = [file.stem.removeprefix("policy-") for file in (self.folder / POLICIES).glob("policy-*.toml")]
        return [int(name) for name in names if name.isdigit()]

    # --- what was made of them --------------------------------------------------------------------------------------

    def made(self, what: str) -> Path | None:
        """Return the file or folder that was made last: a plan, a release, an audit; None if there is none."""
        name = self._name(what)
        file = None if name is None else self.folder / self._made[name]
        return file if file is not None and os.path.lexists(file) else None

    def _name(self, what: str) -> str | None:
        """Return under which name it is known: what was under way counts as soon as it is there."""
        begun = f"{what} under way"
        if begun in self._made and os.path.lexists(self.folder / self._made[begun]):
            return begun
        return what if what in self._made else None

    def expect(self, what: str, file: Path, policy: Path) -> None:
        """Note what comes whole or not at all: once it is there it is known, even if nobody was left to remember it."""
        with self._lock:
            self._made |= {f"{what} under way": self._relative(file), f"policy of {what} under way": policy.name}
            # a folder of this name may have been there before, and may have been audited
            for old in [key for key in self._made if key.startswith("release of ") and self.is_about(key[11:], file)]:
                del self._made[old]
            self._store()

    def _relative(self, file: Path) -> str:
        return os.path.relpath(file.resolve(), self.folder.resolve())

    def remember(self, what: str, file: Path, policy: Path, *, about: Path | None = None, **figures: Any) -> None:
        """Note that a file or folder was made from a policy: that of its beginning, whatever stands by now.

        `about`: the release that it is about.
        """
        with self._lock:
            if about is not None:
                self._made[f"release of {what}"] = self._relative(about)
            self._made |= {what: self._relative(file), f"policy of {what}": policy.name}
            for begun in (f"{what} under way", f"policy of {what} under way"):
                self._made.pop(begun, None)
            self._store()
        self.note(f"{what} made", policy=policy.name, file=str(file), **figures)

    def is_about(self, what: str, release: Path) -> bool:
        """Whether something was made of this release."""
        return self._made.get(f"release of {what}") == self._relative(release)

    def policy_of(self, what: str) -> Path | None:
        """Return the policy that something was made from."""
        name = self._made.get(f"policy of {self._name(what)}")
        return None if name is None else self.folder / POLICIES / name

    def is_current(self, what: str) -> bool:
        """Whether something was made from the policy as it stands."""
        return self.made(what) is not None and not self.is_empty and self.policy_of(what) == self.file

    def new(self, stem: str, suffix: str = "") -> Path:
        """Return a name in the folder that is not taken: release, release-2, ..."""
        number = 1
        while os.path.lexists(found := self.folder / f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"):
            number += 1
        return found

    # --- journal ----------------------------------------------------------------------------------------------------

    def note(self, what: str, **figures: Any) -> None:
        """Add a line to the journal."""
        line = {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "what": what, **figures}
        handle = os.open(self.folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def journal(self) -> list[Mapping[str, Any]]:
        """Return what was done, the last first; a line that was cut off by a crash is left out."""
        try:
            lines = (self.folder / JOURNAL).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found[::-1]
