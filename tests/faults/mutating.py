"""A plugin of pytest that loads one module of sfumato with one protection taken out: SFUMATO_MUTATION names which.

SFUMATO_MUTATION='the lock' pytest -p tests.faults.mutating tests/faults/test_killed.py
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType

ASKED = "SFUMATO_MUTATION"


@dataclass(frozen=True)
class Mutation:
    """A protection, the lines that are it, what takes their place, and the test that misses them."""

    module: str
    lines: str
    instead: str
    test: str


WHOLE = "sfumato.publisher.whole_or_absent"
PRIVATE = "sfumato.show.private"
KILLED = "tests/faults/test_killed.py::"
STOPPED = "tests/faults/test_whole_or_absent.py::"
FILES = "tests/faults/test_private_files.py::"
MUTATIONS = {
    "files reach the disk before the name": Mutation(
        WHOLE,
        "            to_disk(file)\n",
        "            pass\n",
        f"{STOPPED}test_the_disk_fails_while_files_reach_it[1]",
    ),
    "the name reaches the disk": Mutation(
        WHOLE,
        "        _settle(folder)\n",
        "        pass\n",
        f"{KILLED}test_a_release_whose_name_did_not_reach_the_disk_is_told_of",
    ),
    "the lock": Mutation(
        WHOLE,
        "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n            _write_all",
        "pass\n            _write_all",
        f"{KILLED}test_the_folder_of_a_running_process_is_left_alone",
    ),
    "what another machine began stays": Mutation(
        WHOLE,
        "return _can_lock(handle) and (os.read(handle, 1000) == _machine().encode() + END or _is_old(left))",
        "return _can_lock(handle)",
        f"{KILLED}test_what_another_machine_began_stays_until_it_is_old[0-True]",
    ),
    "links are not followed": Mutation(
        WHOLE,
        'handle = os.open(left / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))',
        "handle = os.open(left / LOCK, os.O_RDWR)",
        f"{KILLED}test_a_link_in_the_place_of_a_lock_is_not_followed",
    ),
    "mode 0700": Mutation(
        WHOLE, "own.mkdir(mode=0o700)", "own.mkdir()", f"{KILLED}test_others_cannot_look_into_what_is_being_written"
    ),
    "one rename": Mutation(
        WHOLE,
        "        os.rename(partial, folder)\n",
        "        shutil.copytree(partial, folder)\n",
        f"{STOPPED}test_ctrl_c_at_any_stage[renaming]",
    ),
    "spills have no name": Mutation(
        "sfumato.engines.embedded.shuffle",
        'tempfile.TemporaryFile(dir=folder, prefix=".spill-", buffering=0)',
        'tempfile.NamedTemporaryFile(dir=folder, prefix=".spill-", buffering=0, delete=False)',
        f"{KILLED}test_what_a_run_on_this_machine_left_is_removed_by_whoever_can_take_its_lock",
    ),
    "counts are compared": Mutation(
        "sfumato.engines.embedded.engine",
        "        if self.rows.person is None and seen.hash != hash_of_counts(key, perturb.counts):\n"
        "            raise changed_table()\n",
        "",
        "tests/faults/test_changing_table.py::test_counts_alone_tell_where_no_file_does",
    ),
    "what is published must verify": Mutation(
        "sfumato.publisher.publish",
        'if check.status == "fails" and check.name != SECRET_KEY:',
        "if False:",
        f"{KILLED}test_what_would_not_verify_is_not_published",
    ),
    "private files reach the disk": Mutation(
        PRIVATE,
        "    os.fsync(file.fileno())\n",
        "",
        f"{FILES}test_a_file_that_cannot_be_written_leaves_nothing",
    ),
    "mode 0600": Mutation(
        PRIVATE,
        "os.O_TMPFILE | os.O_WRONLY, 0o600)",
        "os.O_TMPFILE | os.O_WRONLY, 0o644)",
        f"{FILES}test_private_files_are_for_their_owner_alone[key]",
    ),
    "a name that is taken is kept": Mutation(
        PRIVATE,
        "            os.link(f",
        "            path.unlink(missing_ok=True)\n            os.link(f",
        f"{FILES}test_a_name_that_was_taken_meanwhile_is_kept",
    ),
    "no image of the memory": Mutation(
        "sfumato.values.randomness",
        "resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))",
        "pass",
        f"{FILES}test_no_image_of_the_memory_while_a_key_is_in_it",
    ),
    "the checksum": Mutation(
        "sfumato.release.verify.verification",
        "        file_sha256(path) == due,\n",
        "        True,\n",
        "tests/faults/test_tampered.py::test_a_flipped_bit_in_the_data",
    ),
    "formulas are escaped": Mutation(
        "sfumato.release.formats.csv",
        "table = _escaped(table) if self.escapes else table",
        "pass",
        "tests/release/test_formulas.py::test_escaped_releases_read_as_they_were[arrow-anatomy]",
    ),
    "formulas of names are escaped": Mutation(
        "sfumato.release.formats.csv",
        "map(escaped, schema.names) if escapes else schema.names",
        "schema.names",
        "tests/release/test_formulas.py::test_names_are_escaped",
    ),
    "formulas of answers are escaped": Mutation(
        "sfumato.show.files",
        "_csv(table, about, escaped) if escape_formulas else content(table, about)",
        "content(table, about)",
        "tests/release/test_formulas.py::test_answers_are_escaped_where_that_is_asked",
    ),
    "formulas are looked for in runs of columns": Mutation(
        "sfumato.engines.rows.looking",
        "self._see_run(run, column)",
        "pass",
        "tests/release/test_formulas.py::test_runs_of_columns_are_looked_into",
    ),
    "control characters are escaped": Mutation(
        "sfumato.show.terminal",
        'return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), text)',
        "return text",
        "tests/show/test_terminal.py::test_printed_text_holds_no_control_character",
    ),
}
"""Each protection by what it does."""


def mutate(asked: Mutation) -> None:
    """Let the module be loaded without the protection, wherever it is imported from now on."""
    through = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        if name != asked.module:
            return through(self, name)
        source = self.get_source(name) or ""
        assert asked.lines in source, f"{name} has no such lines"
        return compile(source.replace(asked.lines, asked.instead), self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


if ASKED in os.environ:
    mutate(MUTATIONS[os.environ[ASKED]])
