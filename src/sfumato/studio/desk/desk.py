"""A desk: one table, the policy as it stands, what was counted of the table, and what was made of it.

Pages ask the desk and change the policy through it. Counts are kept: to try methods and requirements reads no row of
the table again.
"""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sfumato.engines.embedded.sources import open_source
from sfumato.errors import PolicyError, UsageError
from sfumato.methods import plan
from sfumato.methods.plan import Plan
from sfumato.publisher import toml
from sfumato.publisher.policy import Policy, open_decisions
from sfumato.publisher.policy_mistakes import not_toml
from sfumato.publisher.proposal import Proposal
from sfumato.publisher.survey.found import Findings
from sfumato.publisher.survey.overview import Overview
from sfumato.publisher.table import check_original, restated
from sfumato.release.verify.verification import Verification
from sfumato.show.private import write_private
from sfumato.show.reading import read_text
from sfumato.studio.desk import work
from sfumato.studio.desk.jobs import Jobs
from sfumato.studio.desk.workspace import Files, Workspace
from sfumato.values.profile import Profile
from sfumato.values.section import InputRule

LOOKING, PROPOSING, COUNTING = "Looking at the table", "Proposing a policy", "Counting the table"
CHANGED = (
    "The files of the table {table!r} have changed since this work was begun. What is shown of it is read again. A "
    "plan of the table as it was cannot be published: prepare it again. Audits compare a release with the table as it "
    "is now."
)
REASONS = "reasons.json"


@dataclass(frozen=True)
class Counted:
    """The counts of a table, the part of the policy that they are of, and the table's files as they were."""

    of: str
    files: Files
    profile: Profile


class Desk:
    """What a publisher works at."""

    def __init__(self, table: Path | None, workspace: Workspace, folders: tuple[Path, ...]) -> None:
        """`folders`: those that the user named, below which files may be opened and releases written.

        Raise if the workspace is of another table.
        """
        self.workspace, self.folders = workspace, tuple(folder.resolve() for folder in folders)
        self._table = table
        self._was_changed = table is not None and workspace.bind(table, files_of(table))
        self.jobs = Jobs()
        self._overview: tuple[InputRule, Files, Overview] | None = None
        self._findings: tuple[str, Files, Findings] | None = None
        self._tried: tuple[str, Plan] | None = None
        self._counted: Counted | None = None
        self._verified: tuple[Path, Files, Verification] | None = None
        self._counting = ""
        self._lock = threading.Lock()

    # --- the table --------------------------------------------------------------------------------------------------

    @property
    def table(self) -> Path:
        """The table."""
        if self._table is None:
            raise UsageError("No table is open yet.", "Choose one on the page Table.")
        return self._table

    @property
    def has_table(self) -> bool:
        """Whether a table is open."""
        return self._table is not None

    def allowed(self, path: Path) -> Path:
        """Return a path if it lies below a folder that the user named when the studio was started; else raise."""
        found = path.resolve()
        if not any(found == folder or folder in found.parents for folder in self.folders):
            raise UsageError(
                f"{str(path)!r} lies outside of the folders that this studio may open: "
                f"{', '.join(str(folder) for folder in self.folders)}.",
                "Start the studio with a file of that folder, or copy the file.",
            )
        return found

    def open(self, table: Path) -> None:
        """Begin with a table; raise if one is open already, or if it cannot be read."""
        if self._table is not None:
            raise UsageError(f"{self._table.name!r} is open.", "Start another studio for another table.")
        check_original(table)
        open_source(table)
        self._was_changed = self.workspace.bind(table, files_of(table))
        self._table = table
        self.workspace.note("opened a table", table=str(table))

    @property
    def notices(self) -> list[str]:
        """What every page says first: of a table that has changed, and of the folder."""
        changed = self._was_changed or (self._table is not None and files_of(self._table) != self.workspace.files)
        return [*([CHANGED.format(table=self.table.name)] if changed else []), *self.workspace.notices]

    @property
    def input_rule(self) -> InputRule:
        """How the table is read, as far as the policy says it."""
        stated = {} if self.workspace.is_empty else self.raw.get("input", {})
        try:
            return InputRule.model_validate(stated)
        except ValidationError:  # the page of roles tells what is wrong with it
            return InputRule()

    @property
    def overview(self) -> Overview | None:
        """What was seen of the table, read as the policy says."""
        found = self._overview
        return found[2] if found is not None and found[:2] == (self.input_rule, files_of(self.table)) else None

    def look(self) -> None:
        """Look at the table, in a job."""
        rule, files = self.input_rule, files_of(self.table)

        def keep(found: Overview) -> None:
            self._overview = rule, files, found
            self._was_changed |= self.workspace.bind(self.table, files)

        self.jobs.start(LOOKING, work.look, self.table, rule, then=keep)

    def propose(self) -> None:
        """Make the first policy, in a job; the reasons of its roles stay beside it."""

        def keep(found: Proposal) -> None:
            write_private(self._reasons_file, json.dumps(found.reasons, ensure_ascii=False))
            self.workspace.keep(found.text, "began with a proposal")

        self.jobs.start(PROPOSING, work.propose, self.table, then=keep)

    @property
    def _reasons_file(self) -> Path:
        return self.workspace.folder / REASONS

    def reasons(self) -> dict[str, str]:
        """Return why the proposal gave each column its role; nothing if there was none."""
        try:
            return dict(json.loads(self._reasons_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def prepare(self) -> None:
        """Start what the first pages need, unless a job is under way or the last one did not end well."""
        if not self.has_table or self.jobs.is_running or self._went_wrong(LOOKING, PROPOSING):
            return
        if self.overview is None:
            self.look()
        elif self.workspace.is_empty:
            self.propose()

    # --- the policy -------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> dict[str, Any]:
        """The policy as it stands, as TOML has it; it may lack decisions."""
        try:
            return tomllib.loads(self.workspace.text)
        except tomllib.TOMLDecodeError as problem:
            raise PolicyError(*not_toml(self.workspace.text, self.workspace.file.name, str(problem))) from None

    def policy(self) -> Policy:
        """Return the policy as it stands; raise if it is not complete, or names files that may not be opened."""
        if undecided := list(open_decisions(self.raw)):
            places = "\n".join(f"  {line}" for line in undecided)
            raise PolicyError(f"It leaves {len(undecided)} decision(s) to you:\n{places}", "Decide them under Roles.")
        found = Policy.parse(self.workspace.text, "The policy")
        found.method.named_in(self.workspace.file.parent)
        return self.with_allowed_files(found)

    def with_allowed_files(self, policy: Policy) -> Policy:
        """Return a policy if the files that its methods name lie below folders that the user named; else raise."""
        for file in policy.method.named_files:
            try:
                self.allowed(file)
            except UsageError as problem:
                raise PolicyError(problem.message, problem.hint) from None
        return policy

    def problem(self) -> PolicyError | None:
        """Return why the policy as it stands cannot be used; None if it can."""
        try:
            self.policy()
        except PolicyError as problem:
            return problem
        return None

    def change(self, raw: Mapping[str, Any], why: str) -> None:
        """Make a new state of the policy; files that are named from a folder of the user's get their whole paths."""
        text = toml.document(raw)
        try:
            made = Policy.parse(text)
        except PolicyError:  # it may lack decisions: pages tell which
            self.workspace.keep(text, why)
            return
        made.method.named_in(self.folders[0])
        self.workspace.keep(with_whole_paths(self.with_allowed_files(made), text), why)

    def with_changes(self, **sections: Any) -> Policy:
        """Return the policy as it stands with other sections, for a preview; nothing is kept."""
        made = Policy.parse(toml.document({**self.raw, **sections}), "this choice")
        made.method.named_in(self.folders[0])
        return self.with_allowed_files(made)

    # --- the release ------------------------------------------------------------------------------------------------

    def keep_verified(self, release: Path, found: Verification) -> None:
        """Keep what a job found of a release as it is."""
        self._verified = release, files_of(release), found

    def verified(self, release: Path) -> Verification | None:
        """Return the checks of a release; None if they were not made since it came, or since its files changed."""
        found = self._verified
        return found[2] if found is not None and found[:2] == (release, files_of(release)) else None

    # --- what is wrong with columns -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Look for what is wrong with the columns of the policy as it stands, in a job."""
        policy, described, files = self.policy(), self.overview, files_of(self.table)
        if described is None:
            raise UsageError("The table was not looked at yet.", "Open the page Table first.")

        def keep(found: Findings) -> None:
            self._findings = counted_part(policy), files, found

        self.jobs.start("Checking the columns", work.check, self.table, self.workspace.file, described, then=keep)

    def findings(self) -> Findings | None:
        """Return what was found of the columns as they stand; None if they were not checked."""
        found = self._findings
        try:
            of = counted_part(self.policy()), files_of(self.table)
            return found[2] if found is not None and found[:2] == of else None
        except PolicyError:
            return None

    # --- counts -----------------------------------------------------------------------------------------------------

    def counts(self, policy: Policy) -> Profile | None:
        """Return what was counted, under a policy; None if the table was not counted for its columns."""
        found = self._counted
        if found is None or found.of != counted_part(policy) or found.files != files_of(self.table):
            return None
        return restated(found.profile, policy)

    @property
    def last_counted(self) -> Profile | None:
        """What was counted last, under whatever policy."""
        return None if self._counted is None else self._counted.profile

    def note_plan(self, policy: Policy, made: Plan) -> None:
        """Write in the journal that a plan was tried, and what it would give."""
        errors = made.figures.standard_error
        self.workspace.note(
            "plan tried",
            policy=self.workspace.file.name,
            method=policy.method.name,
            requirement=policy.requirement_rule.model_dump(mode="json", exclude_defaults=True),
            expected_error=None if errors is None else round(float(errors.max()), 2),
            record_utility=None if (share := made.figures.record_utility) is None else round(share, 4),
        )

    def count_if_needed(self) -> None:
        """Count for the policy as it stands if it can be used, unless a job is under way or this went wrong before."""
        if self.workspace.is_empty or not self.has_table or self.jobs.is_running or self.problem() is not None:
            return
        policy = self.policy()
        again = self._went_wrong(COUNTING) and self._counting == counted_part(policy)
        if self.counts(policy) is None and not again:
            self.count()

    def _went_wrong(self, *titles: str) -> bool:
        """Whether the last job is one of these, and failed or was cancelled."""
        last = self.jobs.last
        return last is not None and last.title in titles and last.state in ("failed", "cancelled")

    def count(self) -> None:
        """Count the table for the policy as it stands, in a job."""
        policy, files = self.policy(), files_of(self.table)

        def keep(profile: Profile) -> None:
            self._counted = Counted(counted_part(policy), files, profile)

        self._counting = counted_part(policy)
        self.jobs.start(COUNTING, work.count, self.table, self.workspace.file, then=keep)

    def try_plan(self) -> None:
        """Plan the policy as it stands, in a job: for what takes too long while a slider moves."""
        policy = self.policy()
        counted = self._counted_for(policy)

        def keep(made: Plan) -> None:
            self._tried = policy.hash(), made
            self.note_plan(policy, made)

        self.jobs.start("Planning", work.try_plan, counted, self.workspace.file, then=keep)

    def tried(self, policy: Policy) -> Plan | None:
        """Return the plan that a job made for a policy, if there is one."""
        found = self._tried
        return found[1] if found is not None and found[0] == policy.hash() else None

    def _counted_for(self, policy: Policy) -> Profile:
        """Return the counts for a policy whose plans are not drawn."""
        if policy.method.draws_plan:
            raise UsageError(
                f"Plans of {policy.method.title} are drawn: to try them until one looks good tells what they hide.",
                "Choose the requirement by its meaning. The plan is drawn once, when you sign it.",
            )
        counted = self.counts(policy)
        if counted is None:
            raise UsageError("The table was not counted for these columns.", "Count it first.")
        return counted

    def planned(self, policy: Policy) -> Plan:
        """Return what would be published under a policy; raise if the table was not counted for it.

        Nothing is drawn: a method whose plans are drawn is planned when it is signed.
        """
        counted = self._counted_for(policy)
        with self._lock:  # solvers share caches
            return plan(counted, policy.method, policy.requirement)


def files_of(place: Path) -> Files:
    """Return the files of a table or a release as they are: what was found of files that have changed is not used."""
    found = sorted(place.rglob("*")) if place.is_dir() else [place]
    told = ((file, file.stat()) for file in found if file.is_file())
    return tuple((file.relative_to(place).as_posix(), size.st_size, size.st_mtime_ns) for file, size in told)


def counted_part(policy: Policy) -> str:
    """Return what counts depend on: columns, input, persons, keys, and what the method counts beside the secret."""
    stated = policy.model_dump(mode="json")
    kept = {name: stated[name] for name in ("columns", "input", "person", "record_key", "series")}
    return json.dumps({**kept, "linked": policy.linked}, sort_keys=True)


def open_desk(table: Path | None, policy: Path | None, folder: Path | None) -> Desk:
    """Return the desk of a table, as it was left if its folder is there; `policy` begins a new one.

    The folder is named after the table and lies beside it unless `folder` names another.
    """
    if table is None and policy is not None:
        raise UsageError("A policy goes with a table.", "Give the table first: sfumato studio TABLE POLICY")
    if table is not None:
        check_original(table)
        open_source(table)  # raises what is wrong with it before a page opens
    home = folder or Path(f"{_stem(table) if table else 'sfumato'}-studio")
    home = home if folder or table is None else table.parent / home
    places = [home.parent, *([table.parent] if table else [Path()]), *([policy.parent] if policy else [])]
    begun = None if policy is None else Policy.load(policy)  # raises what is wrong with it before a folder is made
    desk = Desk(table, Workspace(home), tuple(places))
    if desk.workspace.table is not None and not desk.has_table:
        desk.open(desk.allowed(desk.workspace.table))
    if policy is not None and begun is not None:
        text = with_whole_paths(desk.with_allowed_files(begun), read_text(policy))
        desk.workspace.keep(text, f"began with {policy.name}")
    return desk


def _stem(table: Path) -> str:
    return table.name.split(".")[0] or "table"


def with_whole_paths(policy: Policy, text: str) -> str:
    """Return the text of a policy; files that its methods name beside it are named by their whole paths."""
    if not policy.method.named_files:
        return text
    raw = tomllib.loads(text)
    stated = [(raw, policy.stated_method)]
    stated += [(raw["columns"][name], rule.method) for name, rule in policy.columns.items() if rule.method is not None]
    for section, method in stated:
        if named := method.by_whole_paths():
            section["method"] |= named
    return toml.document(raw)
