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
ENDS = "tests/faults/test_ends.py::"
HOSTILE = "tests/faults/test_hostile_releases.py::"
SIGNED = "tests/release/test_signature.py::"
CHANGING = "tests/faults/test_changing_table.py::"
ODD = "tests/engines/test_odd_types.py::"
LONG = "tests/engines/test_csv_long.py::"
IDENTITY = "tests/engines/test_identity.py::"
MECHANISM = "sfumato.values.mechanism"
MAPPING = "sfumato.engines.rows.mapping"
STAMPS = "sfumato.engines.stamps"
READING = "sfumato.release.folder"
COMMANDS = "sfumato.cli.base"
MUTATIONS = {
    "files reach the disk before the name": Mutation(
        WHOLE,
        "            to_disk(file)\n",
        "            pass\n",
        f"{STOPPED}test_the_disk_fails_while_files_reach_it[1]",
    ),
    "the name reaches the disk": Mutation(
        WHOLE,
        '        settle(folder, "release"',
        '        (folder, "release"',
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
    "the lock is removed last": Mutation(
        WHOLE,
        '    shutil.rmtree(own / "release", ignore_errors=True)\n    if not os.path.lexists(own / "release"):\n    ',
        "",
        f"{KILLED}test_a_lock_is_removed_last",
    ),
    "a folder with nothing in it is nobody's": Mutation(
        WHOLE,
        "            _remove_if_nothing(left)\n",
        "            pass\n",
        f"{KILLED}test_what_was_killed_before_its_lock_said_whose_it_is_is_removed[an empty one]",
    ),
    "an output that exists is not touched": Mutation(
        WHOLE,
        "    if os.path.lexists(folder):\n",
        "    if False:\n",
        f"{STOPPED}test_an_output_that_exists_is_never_touched",
    ),
    "the signature": Mutation(
        "sfumato.release.signature",
        "        except InvalidSignature:\n            return False\n",
        "        except InvalidSignature:\n            return True\n",
        f"{SIGNED}test_every_byte_of_the_manifest_is_signed",
    ),
    "a signing key is its owner's alone": Mutation(
        "sfumato.publisher.signing",
        '        check_closed(Path(path), "signing key")\n',
        "",
        f"{SIGNED}test_a_signing_key_is_for_its_owner_alone",
    ),
    "a key that others can read is refused": Mutation(
        "sfumato.values.randomness",
        '        check_closed(Path(path), "key file")\n',
        "",
        f"{FILES}test_a_key_that_others_can_read_is_named[420]",
    ),
    "the name of a private file reaches the disk": Mutation(
        PRIVATE,
        "        _write_nameless(handle, path, text)\n    _settle(path)\n",
        "        _write_nameless(handle, path, text)\n",
        f"{FILES}test_the_name_of_a_private_file_reaches_the_disk[write_new-True]",
    ),
    "no image of the memory where publish reads a key": Mutation(
        "sfumato.cli.main",
        "    with told_if_published(output), no_core_dump():\n",
        "    with told_if_published(output):\n",
        f"{FILES}test_no_image_of_the_memory_where_a_key_comes_into_it[publish, a key is read]",
    ),
    "no image of the memory where a key for signatures is made": Mutation(
        "sfumato.publisher.signing",
        "        with no_core_dump():\n",
        "        if True:\n",
        f"{FILES}test_no_image_of_the_memory_where_a_key_comes_into_it[key --sign]",
    ),
    "no image of the memory where a key is made": Mutation(
        "sfumato.values.randomness",
        "        with no_core_dump():\n",
        "        if True:\n",
        f"{FILES}test_no_image_of_the_memory_where_a_key_comes_into_it[key]",
    ),
    "what a terminal cannot show stops no release": Mutation(
        "sfumato.show.terminal",
        '            stream.reconfigure(errors="backslashreplace")\n',
        "            pass\n",
        "tests/cli/test_first_screens.py::test_output_in_ascii_does_not_stop_a_release",
    ),
    "signals end quietly while the program is loaded": Mutation(
        "sfumato.cli.start",
        "    handle_signals(_end)\n",
        "",
        f"{ENDS}test_a_signal_while_the_program_is_loaded_ends_it_quietly[SIGTERM-typer]",
    ),
    "no private file lies in a release": Mutation(
        COMMANDS,
        "    if folder := release_around(file):\n",
        "    if folder := None:\n",
        f"{FILES}test_private_files_are_for_their_owner_alone[plan]",
    ),
    "words of a record key differ by what they are for": Mutation(
        "sfumato.values.randomness",
        "    first[:, 1] = int(step)\n",
        "    first[:, 1] = 0\n",
        "tests/statistical/test_randomness.py::test_near_keys_have_unrelated_words",
    ),
    "threads that run out are told as such": Mutation(
        COMMANDS,
        '"start new thread" in str(problem)',
        "False",
        f"{ENDS}test_what_an_input_can_do_is_told_as_such[problem2-2-no more threads]",
    ),
    "control characters are escaped in JSON": Mutation(
        "sfumato.show.terminal",
        'found.group() if found.group() in "\\r" else f"\\\\u{ord(found.group()):04x}"',
        "text",
        "tests/show/test_terminal.py::test_json_stays_the_same_value",
    ),
    "what another machine began must be old": Mutation(
        WHOLE,
        "DAYS = 7\n",
        "DAYS = 0\n",
        f"{KILLED}test_what_another_machine_began_stays_until_it_is_old[0-True]",
    ),
    "links lead to the folder of a table": Mutation(
        "sfumato.publisher.publish",
        "own.resolve() in (folder.resolve(), *folder.resolve().parents)",
        "own.absolute() in (folder.absolute(), *folder.absolute().parents)",
        "tests/faults/test_own_output.py::test_a_release_cannot_lie_in_the_folder_of_its_table",
    ),
    "devices are not read": Mutation(
        "sfumato.show.reading",
        "if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):",
        "if False:",
        "tests/show/test_reading.py::test_a_device_is_told_as_one",
    ),
    "connections that ask nothing are closed": Mutation(
        "sfumato.studio.web.serve",
        "            self.transport.close()\n",
        "            pass\n",
        "tests/studio/test_guard.py::test_a_connection_that_asks_nothing_is_closed[]",
    ),
    "no key file is overwritten": Mutation(
        PRIVATE,
        '    if os.path.lexists(path):\n        raise UsageError(f"{str(path)!r} exists already; a key',
        '    if False:\n        raise UsageError(f"{str(path)!r} exists already; a key',
        f"{SIGNED}test_no_key_is_overwritten",
    ),
    "links in a release": Mutation(
        "sfumato.release.folder",
        "        if path.is_symlink():\n",
        "        if False:\n",
        f"{HOSTILE}test_links_are_not_followed[data.parquet]",
    ),
    "the memory of questions": Mutation(
        READING,
        "    database.execute(f\"SET memory_limit = '{MEMORY}'\")\n",
        "",
        f"{HOSTILE}test_databases_have_a_limit_of_memory",
    ),
    "the database reaches no file": Mutation(
        READING,
        '    database.execute("SET enable_external_access = false")\n',
        "",
        "tests/faults/test_sandbox.py::test_the_database_itself_reaches_nothing",
    ),
    "the database's settings are locked": Mutation(
        READING,
        '    database.execute("SET lock_configuration = true")\n',
        "",
        "tests/faults/test_sandbox.py::test_the_database_itself_reaches_nothing",
    ),
    "room before a database is opened": Mutation(
        "sfumato.release.formats.parquet",
        "        raise MemoryError from None\n",
        "        pass\n",
        "tests/faults/test_limits.py::test_no_database_is_opened_where_addresses_run_out",
    ),
    "the length of conditions": Mutation(
        "sfumato.analyst.ask.where",
        "    if terms > MOST_TERMS:\n",
        "    if False:\n",
        f"{HOSTILE}test_questions_with_thousands_of_terms_are_refused[OR]",
    ),
    "a plan agrees with itself": Mutation(
        "sfumato.methods",
        "if wrong := next(_differences(raw, read.to_dict()), None):",
        "if wrong := None:",
        "tests/engines/test_several.py::test_a_plan_file_whose_matrix_breaks_its_bound_is_refused",
    ),
    "plans are derived again": Mutation(
        "sfumato.publisher.publish",
        "    if wrong := next(_underivable(table, plan), None):\n",
        "    if wrong := None:\n",
        "tests/faults/test_plan_files.py::test_a_resealed_plan_is_not_published",
    ),
    "the table's files are as they were opened": Mutation(
        "sfumato.engines.embedded.sources",
        "        check_stamps(self._opened, _parquet_files(self.folder) if self.folder else self.files)\n",
        "        pass\n",
        f"{CHANGING}test_a_table_that_changes_is_not_signed_off[another Parquet file-fresh]",
    ),
    "the table's lines are as they were opened": Mutation(
        "sfumato.engines.embedded.csv_source",
        "        check_stamps(self._opened, [self.path])\n",
        "        pass\n",
        f"{CHANGING}test_a_table_that_changes_is_not_signed_off[values of the second half-fresh]",
    ),
    "what changed just now is hashed": Mutation(
        "sfumato.engines.stamps",
        "    if not hashed and (not now or now - max(stamp.written, stamp.changed) > TICK):\n",
        "    if not hashed:\n",
        f"{CHANGING}test_a_file_that_changes_within_one_tick_of_its_clock",
    ),
    "what the system notes of a file is compared": Mutation(
        STAMPS,
        "    if now == opened:\n",
        "    if [(s.path, s.content) for s in now] == [(s.path, s.content) for s in opened]:\n",
        f"{CHANGING}test_a_table_that_changes_is_not_published[another Parquet file-planned-aged]",
    ),
    "the time of a file's last change": Mutation(
        STAMPS,
        'getattr(found, "st_ctime_ns", 0)',
        "0",
        f"{CHANGING}test_a_table_that_changes_is_not_published[values that were not counted-planned-aged]",
    ),
    "the number of a file": Mutation(
        STAMPS,
        "found.st_ino,",
        "0,",
        f"{CHANGING}test_another_file_of_the_same_times_is_told_by_its_number",
    ),
    "the size of a file": Mutation(
        STAMPS,
        "found.st_size,",
        "0,",
        f"{CHANGING}test_size_and_mtime_tell_where_no_time_of_changes_is_kept[size-appended_unseen]",
    ),
    "the time of a file's last write": Mutation(
        STAMPS,
        "found.st_mtime_ns,",
        "0,",
        f"{CHANGING}test_size_and_mtime_tell_where_no_time_of_changes_is_kept[written-other_values]",
    ),
    "dictionaries of numbers are written as numbers": Mutation(
        MAPPING,
        "    if not pa.types.is_dictionary(kind):\n        return column\n    if not pa.types.is_string(",
        "    if True:\n        return column\n    if not pa.types.is_string(",
        f"{ODD}test_every_value_is_published_as_it_was[dictionary of twin numbers]",
    ),
    "no value is twice in a dictionary": Mutation(
        "sfumato.engines.embedded.sources",
        "bool(values.null_count) or len(values.unique()) < len(values)",
        "bool(values.null_count)",
        f"{ODD}test_a_file_does_not_tell_that_a_dictionary_had_twins[other-parquet]",
    ),
    "a carriage return alone ends a line": Mutation(
        "sfumato.engines.embedded.csv_lines",
        '.replace(b"\\r", b"\\n")',
        "",
        "tests/engines/test_csv_lines.py::test_a_carriage_return_alone_ends_a_line",
    ),
    "a domain has no more combinations than are planned": Mutation(
        MECHANISM,
        "    if size > MOST_VALUES:",
        "    if False:",
        f"{HOSTILE}test_a_domain_is_not_made_of_more_combinations_than_are_planned",
    ),
    "a matrix is of the size of its domain": Mutation(
        MECHANISM,
        '    if noise is not None and noise["size"] != codes.size:',
        "    if False:",
        f"{HOSTILE}test_a_matrix_is_not_made_larger_than_its_domain[3]",
    ),
    "the size of a manifest": Mutation(
        READING,
        "path.stat().st_size > LARGEST_MANIFEST",
        "False",
        f"{HOSTILE}test_a_manifest_larger_than_any_is_not_read[1099511627776]",
    ),
    "a child leaves databases to its parent": Mutation(
        READING,
        ", after_in_child=_leave_to_parent",
        "",
        f"{HOSTILE}test_a_child_leaves_open_databases_to_its_parent",
    ),
    "databases spill nothing": Mutation(
        READING,
        '        "temp_directory": "",\n',
        "",
        "tests/release/test_database.py::test_a_question_beyond_the_limit_is_refused_and_leaves_no_files[True]",
    ),
    "texts that readers of CSV refuse": Mutation(
        "sfumato.release.formats.csv",
        "texts.nbytes > LONGEST and",
        "False and",
        f"{LONG}test_what_readers_of_csv_refuse_is_not_published_as_csv",
    ),
    "no line is longer than a table has": Mutation(
        "sfumato.engines.embedded.csv_lines",
        "            if end - begun > LONGEST_LINE:\n",
        "            if False:\n",
        f"{LONG}test_a_line_that_no_table_has_is_never_whole_in_memory[a value-False]",
    ),
    "a series has draws of its own": Mutation(
        "sfumato.engines.base",
        '_context(["noise", self.series, columns]',
        '_context(["noise", columns]',
        f"{IDENTITY}test_t8_series_column_labels_and_matrix_are_in_the_context",
    ),
    "a column has draws of its own": Mutation(
        "sfumato.engines.base",
        "[part.name, list(part.labels)]",
        "[list(part.labels)]",
        f"{IDENTITY}test_t8_series_column_labels_and_matrix_are_in_the_context",
    ),
    "time zones are known": Mutation(
        "sfumato.publisher.table",
        '            return f"the time zone {kind.tz!r} is not known here"',
        '            return ""',
        f"{ODD}test_what_could_not_be_read_back_is_refused_by_name[an unknown zone-parquet-other]",
    ),
    "days are of years that programs know": Mutation(
        MAPPING,
        "    if low is not None and (low < FIRST_DAY * per_day or high >= (LAST_DAY + 1) * per_day):\n",
        "    if False:\n",
        f"{ODD}test_what_could_not_be_read_back_is_refused_by_name[the year 10000-parquet-other]",
    ),
    "a release lies outside of its table": Mutation(
        "sfumato.publisher.publish",
        "if own is not None and own.resolve() in (folder.resolve(), *folder.resolve().parents):",
        "if False:",
        "tests/faults/test_own_output.py::test_a_release_cannot_lie_in_the_folder_of_its_table",
    ),
    "a release is no table": Mutation(
        "sfumato.engines.embedded.sources",
        "if release := next((above for above in file.parents if _is_release(above, folder)), None):",
        "if release := None:",
        "tests/faults/test_own_output.py::test_a_folder_with_a_release_in_it_is_no_table[release]",
    ),
    "mistakes of the program have a code of their own": Mutation(
        COMMANDS,
        "    return InternalError.of(problem)\n",
        '    return UsageError(str(problem), "")\n',
        f"{ENDS}test_a_mistake_of_the_program_has_a_code_of_its_own",
    ),
    "a release that is there is not denied": Mutation(
        COMMANDS,
        "        if isinstance(problem, SfumatoError) or not os.path.lexists(release):\n            raise\n",
        "        raise\n",
        f"{ENDS}test_what_goes_wrong_behind_the_rename_does_not_deny_the_release",
    ),
    "polite signals unwind": Mutation(
        COMMANDS,
        "    handle_signals(unwind)\n",
        "",
        f"{ENDS}test_a_polite_kill_ends_without_a_traceback[at work]",
    ),
    "signals that are ignored stay so": Mutation(
        "sfumato.cli.signals",
        " and signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN",
        "",
        f"{ENDS}test_a_signal_that_is_ignored_stays_ignored",
    ),
    "an end is told where all is stopped": Mutation(
        "sfumato.engines.base",
        "                if stopped.is_set():\n                    break\n                ready.put((item, None))",
        "                if stopped.is_set():\n                    return\n                ready.put((item, None))",
        "tests/engines/test_ahead.py::test_who_leaves_early_waits_for_nobody_where_one_thread_makes_for_another",
    ),
    "rows are counted before an audit reads them": Mutation(
        "sfumato.auditor.evidence",
        "                if held != number:\n",
        "                if False:\n",
        "tests/faults/test_audit_tampered.py::test_a_number_of_rows_that_is_not_the_stated_one_is_refused[0-data]",
    ),
    "a release of another table is not read": Mutation(
        "sfumato.auditor.evidence",
        "        self._read_table([name])  # the release",
        "        self.in_table(name)  # the release",
        "tests/faults/test_audit_tampered.py::test_a_release_of_more_rows_than_the_table_is_not_read",
    ),
    "groups have the columns that are stated": Mutation(
        "sfumato.auditor.evidence",
        'if set(self._columns_of("compositions")) != due:',
        "if False:",
        "tests/faults/test_audit_tampered.py::test_groups_with_other_columns_are_refused[none]",
    ),
    "each group has a line, and each line a record": Mutation(
        "sfumato.release.manifest",
        "if self.groups and not self.groups.number <= self.groups.lines <= self.data.rows:",
        "if False:",
        "tests/faults/test_groups_tampered.py::test_more_groups_than_lines_or_lines_than_records[parquet-lines]",
    ),
    "what is no number names nobody": Mutation(
        "sfumato.engines.base",
        "    column = nan_as_null(column)\n",
        "",
        "tests/engines/test_identity.py::test_what_is_no_number_names_no_person[error-False]",
    ),
    "names in a README are escaped": Mutation(
        "sfumato.release.readme",
        '    return _READ_AS_HTML.sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", escaped)\n',
        "    return _one_line(text)\n",
        "tests/release/test_readme.py::test_no_name_is_markup[uniform-'<script>aler']",
    ),
    "the shell line of a README is quoted": Mutation(
        "sfumato.release.readme",
        "    return shlex.quote(text) if",
        "    return text if",
        "tests/release/test_readme.py::test_the_shell_gets_the_name_as_one_argument[uniform-'$(touch out)']",
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
