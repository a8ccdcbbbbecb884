"""The private folder of a desk: every state of the policy is a file, and a journal tells what was done with them.

Nothing is overwritten: a new state is a new file, and undo goes back to an earlier one. A change names the state that
it was made on, so that of two tabs neither overwrites what it has not seen. The folder is of one table and one process
at a time, and it is all that a desk needs to go on after its server has ended, in whatever way.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.errors import PolicyError, UsageError
from sfumato.publisher.whole_or_absent import remove_abandoned
from sfumato.show.private import close_to_others, is_open_to_others, private_folder, write_private
from sfumato.studio.web.pages import Outdated

try:
    import fcntl
except ImportError:  # no such locks here: then the user sees to it that a folder is opened once
    fcntl = None  # type: ignore[assignment]

STATE, JOURNAL, POLICIES, LOCK = "state.json", "journal.jsonl", "policies", "lock"
Files = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of each file of a table."""


@dataclass
class State:
    """Where a desk is: which policies stand and were undone, by their numbers, what was made of them, and the table."""

    done: list[int] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    table: str | None = None  # from the folder, so that both can be moved together
    files: Files = ()

    @classmethod
    def read(cls, text: str) -> State:
        """Read what `vars` of a state gives as JSON; raise `ValueError` if it is something else."""
        try:
            raw = json.loads(text)
            done, undone = ([int(number) for number in raw[name]] for name in ("done", "undone"))
            made = {str(what): str(name) for what, name in raw["made"].items()}
            table = raw.get("table")
            files = tuple((str(name), int(size), int(at)) for name, size, at in raw.get("files", ()))
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(str(problem)) from None
        return cls(done, undone, made, None if table is None else str(table), files)


class Workspace:
    """The states of a policy in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notices: list[str] = []  # what every page says of the folder
        self._close()
        self._take()
        self._lock = threading.RLock()  # pages and jobs change it in threads of their own
        self._state = self._stored()
        if "release under way" in self._state.made:  # the process that made it may have been killed
            remove_abandoned(self.folder / self._state.made["release under way"])
        if self.notices:
            self._store()

    def _close(self) -> None:
        """Make the folder, or close it to others with all that lies in it: it may come from a copy or an archive."""
        is_ours = (self.folder / STATE).exists()
        for each in (self.folder, self.folder / POLICIES):
            if is_ours and each.exists() and is_open_to_others(each):
                close_to_others(each)
            private_folder(each)
        for file in (*self.folder.iterdir(), *(self.folder / POLICIES).iterdir()):
            if file.is_file() and not file.is_symlink() and is_open_to_others(file):
                close_to_others(file)

    def _take(self) -> None:
        """Keep other processes out of the folder for as long as this object lives; raise if one is at work there."""
        handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        weakref.finalize(self, os.close, handle)
        try:
            if fcntl is not None:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.read(handle, 1000).decode(errors="replace") or "process unknown"
            raise UsageError(
                f"Another studio is open on {str(self.folder)!r}: {holder}.",
                "Go on in its page, or end it with ctrl-C in its terminal and start this one again. To work beside it, "
                "name another folder: --folder NEW",
            ) from None
        except OSError:  # a disk without locks
            return
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())

    def _stored(self) -> State:
        file = self.folder / STATE
        try:
            return State.read(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return State()
        except ValueError:
            kept = self.new("state.damaged", ".json")
            os.replace(file, kept)
            found = State(sorted(self._numbers()))
            self.notices.append(
                f"{str(file)!r} was damaged and is now {kept.name!r}. This desk goes on with the last policy that was "
                "kept. Which plan and which release go with it is no longer known; their files are where they were."
            )
            return found

    # --- the table --------------------------------------------------------------------------------------------------

    @property
    def table(self) -> Path | None:
        """The table that the folder is of; None if there is none yet."""
        return None if self._state.table is None else Path(os.path.normpath(self.folder / self._state.table))

    @property
    def files(self) -> Files:
        """The files of the table, as they were when it was last looked at."""
        return self._state.files

    def bind(self, table: Path, files: Files) -> bool:
        """Make the folder that of a table; return whether its files have changed since. Raise if it is of another."""
        with self._lock:
            bound, before = self.table, self._state.files
            if bound is not None and bound.resolve() != table.resolve():
                raise UsageError(
                    f"{str(self.folder)!r} holds the work on another table, {str(bound)!r}.",
                    f"Name another folder: sfumato studio {table.name} --folder NEW. If it is the same table at "
                    "another place, give the last policy of the old folder, too.",
                )
            self._state.table, self._state.files = self._relative(table), files
            self._store()
            changed = bound is not None and before != files
        if changed:
            self.note("the table has changed", table=str(table))
        return changed

    # --- states -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether there is no policy yet."""
        return not self._state.done

    @property
    def file(self) -> Path:
        """The file of the policy as it stands."""
        return self._file(self._state.done[-1])

    @property
    def name(self) -> str:
        """The name of the state; no other state ever has it."""
        return "" if self.is_empty else self.file.name

    @property
    def text(self) -> str:
        """The policy as it stands."""
        try:
            return self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise PolicyError(
                f"The policy {str(self.file)!r} cannot be read: {problem}.",
                "Put the file back, or go on with the state before it: Undo.",
            ) from None

    @contextmanager
    def changing(self, seen: str | None) -> Iterator[None]:
        """Hold everybody else off for a change that was made on the state of this name; raise if another one stands."""
        with self._lock:
            if seen != self.name:
                raise Outdated(
                    f"The policy has been changed since this page was loaded: {self.name or 'none'} stands now.",
                    "Nothing of this form was kept. It may have happened in another tab. Go back to see what you "
                    "wrote, load the page again, and decide there.",
                )
            yield

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier state."""
        return len(self._state.done) > 1

    @property
    def can_redo(self) -> bool:
        """Whether a state was undone."""
        return bool(self._state.undone)

    def keep(self, text: str, why: str) -> None:
        """Make this the state, unless it is already."""
        with self._lock:
            if not self.is_empty and text == self.text:
                return
            number = 1 + max([*self._numbers(), 0])
            write_private(self._file(number), text)
            self._move([*self._state.done, number], [])
            self.note(why, policy=self._file(number).name)

    def undo(self) -> None:
        """Go back to the state before, if there is one."""
        with self._lock:
            if self.can_undo:
                *done, last = self._state.done
                self._move(done, [*self._state.undone, last])
                self.note("undo", policy=self.file.name)

    def redo(self) -> None:
        """Take back the last undo, if nothing was changed since."""
        with self._lock:
            if self._state.undone:
                *undone, last = self._state.undone
                self._move([*self._state.done, last], undone)
                self.note("redo", policy=self.file.name)

    def _move(self, done: list[int], undone: list[int]) -> None:
        self._state.done, self._state.undone = done, undone
        self._store()

    def _store(self) -> None:
        write_private(self.folder / STATE, json.dumps(vars(self._state)))

    def _file(self, number: int) -> Path:
        return self.folder / POLICIES / f"policy-{number:04}.toml"

    def _numbers(self) -> list[int]:
        names = [file.stem.removeprefix("policy-") for file in (self.folder / POLICIES).glob("policy-*.toml")]
        return [int(name) for name in names if name.isdigit()]

    # --- what was made of them --------------------------------------------------------------------------------------

    def made(self, what: str) -> Path | None:
        """Return the file or folder that was made last: a plan, a release, an audit; None if there is none."""
        name = self._name(what)
        file = None if name is None else self.folder / self._state.made[name]
        return file if file is not None and os.path.lexists(file) else None

    def _name(self, what: str) -> str | None:
        """Return under which name it is known: what was under way counts as soon as it is there."""
        begun = f"{what} under way"
        if begun in self._state.made and os.path.lexists(self.folder / self._state.made[begun]):
            return begun
        return what if what in self._state.made else None

    def expect(self, what: str, file: Path, policy: Path) -> None:
        """Note what comes whole or not at all: once it is there it is known, even if nobody was left to remember it."""
        with self._lock:
            self._state.made |= {f"{what} under way": self._relative(file), f"policy of {what} under way": policy.name}
            # a folder of this name may have been there before, and may have been audited
            about = [key.removeprefix("release of ") for key in self._state.made if key.startswith("release of ")]
            for old in about:
                if self.is_about(old, file):
                    del self._state.made[f"release of {old}"]
            self._store()

    def _relative(self, file: Path) -> str:
        return os.path.relpath(file.resolve(), self.folder.resolve())

    def remember(self, what: str, file: Path, policy: Path, *, about: Path | None = None, **figures: Any) -> None:
        """Note that a file or folder was made from a policy: that of its beginning, whatever stands by now.

        `about`: the release that it is about.
        """
        with self._lock:
            if about is not None:
                self._state.made[f"release of {what}"] = self._relative(about)
            self._state.made |= {what: self._relative(file), f"policy of {what}": policy.name}
            for begun in (f"{what} under way", f"policy of {what} under way"):
                self._state.made.pop(begun, None)
            self._store()
        self.note(f"{what} made", policy=policy.name, file=str(file), **figures)

    def is_about(self, what: str, release: Path) -> bool:
        """Whether something was made of this release."""
        return self._state.made.get(f"release of {what}") == self._relative(release)

    def policy_of(self, what: str) -> Path | None:
        """Return the policy that something was made from."""
        name = self._state.made.get(f"policy of {self._name(what)}")
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
        """Return what was done, the last first; lines that cannot be read are left out (`unread_lines`)."""
        return [line for line in self._lines()[::-1] if line is not None]

    def unread_lines(self) -> int:
        """Return how many lines of the journal cannot be read: cut off by a crash, or damaged."""
        return sum(line is None for line in self._lines())

    def _lines(self) -> list[Mapping[str, Any] | None]:
        try:
            text = (self.folder / JOURNAL).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return [_line(line) for line in text.splitlines() if line.strip()]


def _line(text: str) -> Mapping[str, Any] | None:
    """Return a line of the journal; None if it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_line = isinstance(found, dict) and all(isinstance(found.get(key), str) for key in ("at", "what"))
    return found if is_line else None
