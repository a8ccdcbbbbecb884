"""sfumato's commands. Modules that take long to load are imported where they are used: `--help` must be quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.analyst import associate, distribution, estimate, power, regress
from sfumato.cli.auditor import audit, compare, report
from sfumato.cli.base import (
    Conf,
    Details,
    Engine,
    Json,
    Master,
    NewFolder,
    PolicyPath,
    Reasons,
    ReleasePath,
    Shuffle,
    TablePath,
    app,
    as_ours,
    check_private,
    ended_cleanly,
    fail,
    once,
    print_json,
    progress_bar,
    spark_session,
    tell,
    tell_first,
    told_if_published,
)
from sfumato.cli.signals import INTERRUPTED, NOTHING_PUBLISHED
from sfumato.cli.studio import check_installed, open_page, studio
from sfumato.errors import SfumatoError, UsageError
from sfumato.show.terminal import line_width, listed, never_fail_to_print, say, table_width

if TYPE_CHECKING:
    from sfumato.methods.plan import Plan
    from sfumato.publisher.table import Table
    from sfumato.values.profile import Profile
    from sfumato.values.randomness import SecretKey

PAPERS_HINT = (
    "In a copy of sfumato's repository: pip install ./papers, "
    "or write uv run --package sfumato-papers sfumato reproduce in place of sfumato reproduce."
)
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""All arguments of a command go to the plug-in that it comes with."""
PLUGINS = "sfumato.commands"
"""The group of entry points, each a Typer application, by which other distributions bring commands."""
TRACEBACK = "SFUMATO_TRACEBACK"
"""Set in the environment, it lets mistakes of this program end in all that Python tells, which may hold values."""
LOST = "WARNING: this draw is lost: plan with -o FILE to keep the next, and publish that."
"""Of a plan that was drawn at random and not kept: only another draw can be published."""
FILE_HINT = "Check that its folder is there, and that you may read and write it."


def main() -> None:
    """Run the command line; every error of ours becomes a message and an exit code."""
    as_json = "--json" in sys.argv
    never_fail_to_print()
    try:
        with ended_cleanly():
            app(standalone_mode=True)
    except SfumatoError as problem:
        sys.exit(fail(problem, as_json))
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer's own, which says nothing
            say(NOTHING_PUBLISHED, error=True)
        raise
    except OSError as problem:  # of files beside the release: a plan, a key
        sys.exit(
            fail(UsageError(f"{problem.filename or 'A file'}: {problem.strerror or problem}.", FILE_HINT), as_json)
        )
    except KeyboardInterrupt:
        say(NOTHING_PUBLISHED, error=True)
        sys.exit(INTERRUPTED)
    except Exception as problem:
        if TRACEBACK in os.environ:
            raise
        sys.exit(fail(as_ours(problem), as_json))


def init(
    table: TablePath,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The new policy file.")] = None,
    sensitive: Annotated[str | None, typer.Option("--sensitive", help="The column that is the secret.")] = None,
    as_json: Json = False,
) -> None:
    """Propose a policy for a table, with the reasons as comments."""
    from sfumato.engines.embedded.sources import open_source
    from sfumato.publisher.proposal import propose
    from sfumato.publisher.table import check_original
    from sfumato.show.private import write_new

    check_private(output, "a policy")
    check_original(table)
    text = propose(open_source(table), sensitive)
    if output is not None:
        write_new(output, text)
    if as_json:
        print_json({"policy": text, "file": None if output is None else str(output)})
    else:
        say(text if output is None else f"Wrote {output}. {_left_open(text)}", fold=output is not None)


def profile(
    table: TablePath,
    policy: Annotated[Path | None, typer.Argument(help="The policy (sfumato init); without one, columns only.")] = None,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Look at a table: who can be found, what can be promised.

    Also which columns tell the secret. Private: it shows figures of the table.
    """
    from sfumato.engines.embedded.sources import open_source
    from sfumato.publisher.survey import survey

    opened = None if policy is None else _scanned(table, policy)
    source = open_source(table) if opened is None else opened.source
    with progress_bar("Counting", getattr(source, "rows", None), as_json) as report:
        result = survey(source, opened, report)
    tell_first(result.summary(), result, as_json, details)


def plan(
    table: TablePath,
    policy: PolicyPath,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the plan, to be signed off.")] = None,
    shuffle: Shuffle = False,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    details: Details = False,
    why: Reasons = False,
    as_json: Json = False,
) -> None:
    """Explain what would be published, and at what cost.

    Private. Nothing is published. What `publish` would refuse of the table is refused here.
    """
    from sfumato.publisher.publish import to_sign
    from sfumato.show.private import write_new

    check_private(output, "a plan")
    with _opened(table, policy, engine, master, conf) as opened:
        made = _planned(opened, as_json, shuffle)
        with progress_bar("Rehearsing", made.rows + made.dropped, as_json) as report:
            made = to_sign(opened, made, report)
    if output is not None:
        write_new(output, made.to_json())
    if why:
        tell(made.why, as_json)
    else:
        lost = output is None and made.is_drawn and not as_json
        if lost and details:
            say(LOST)
        first = made.summary()
        tell_first(replace(first, head=(LOST, *first.head)) if lost else first, made, as_json, details)
    if output is not None and not as_json:
        what = "This exact plan is published" if made.figures.exact else "About this is published, drawn anew,"
        say(f"Wrote {output}, plan {made.number}. {what} by")
        say(f"  sfumato publish {table} {policy} --plan {output} -o DIR")


def risk(
    table: TablePath,
    policy: PolicyPath,
    keep: Annotated[list[str], typer.Option("--keep", help="COLUMN=P: its values stay with this probability.")],
    cells: Annotated[int, typer.Option("--cells", help="How many cells are looked at.")] = 20,
    samples: Annotated[int, typer.Option("--samples", help="By how many drawn releases each.")] = 400,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes the draws repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Estimate risks under stated probabilities: no guarantee.

    Private. For tables whose columns have too many values together for a plan.
    """
    from sfumato.methods.response.estimating import estimate_risk
    from sfumato.values.requirement import RiskLimit

    kept = once("--keep", map(_probability, keep))
    opened = _scanned(table, policy)
    limit = opened.policy.requirement
    found = estimate_risk(
        _counted(opened, as_json),
        kept,
        limit=limit if isinstance(limit, RiskLimit) else None,
        cells=cells,
        samples=samples,
        seed=seed,
    )
    tell(found, as_json)


def publish(
    table: TablePath,
    policy: PolicyPath,
    output: NewFolder,
    plan_file: Annotated[Path | None, typer.Option("--plan", help="Publish exactly this plan.")] = None,
    key_file: Annotated[Path | None, typer.Option("--key-file", help="Key for a policy with a record_key.")] = None,
    shuffle: Shuffle = False,
    seed: Annotated[int | None, typer.Option("--seed", help='For tests; marks the release "not for release".')] = None,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    sign: Annotated[Path | None, typer.Option("--sign", help="Sign with this key (sfumato key --sign).")] = None,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Publish a table as a folder: data, manifest and README.

    The folder appears whole or not at all.
    """
    from sfumato.cli.published import Publication
    from sfumato.methods import load_plan
    from sfumato.publisher.publish import check_new, publish, rows_read
    from sfumato.publisher.signing import SigningKey
    from sfumato.values.randomness import SecretKey, no_core_dump

    if seed is not None and key_file is not None:
        raise UsageError(
            "--seed and --key-file exclude each other.",
            'A seed is for tests, and marks the release "not for release"; to publish, give --key-file alone.',
        )
    if plan_file is not None and shuffle:
        raise UsageError("--shuffle cannot change a plan that was signed off.", "Plan with it instead.")
    check_new(output)
    with told_if_published(output), no_core_dump():
        key = SecretKey.load(key_file) if key_file else None if seed is None else SecretKey.from_seed(seed)
        signing = SigningKey.load(sign) if sign else None
        with _opened(table, policy, engine, master, conf) as opened:
            made = _planned(opened, as_json, shuffle, key) if plan_file is None else load_plan(plan_file)
            if not as_json and made.figures.announced():
                say(made.figures.announced())
            with progress_bar("Publishing", rows_read(made), as_json) as report:
                release = publish(opened, made, output, key=key, sign=signing, progress=report)
        signer = signing.public.fingerprint if signing else None
        told = Publication(output, release.manifest, opened.policy, made.uniqueness, table, policy, signer)
        tell_first(told.summary(), told, as_json, details)


def reproduce(context: typer.Context) -> None:
    """Run the papers' examples again (needs sfumato-papers)."""
    run_plugin("reproduce", context.args, "sfumato-papers", PAPERS_HINT)


def run_plugin(name: str, arguments: Sequence[str], distribution: str, hint: str) -> None:
    """Run the command of this name with these arguments; raise a hint where its distribution is not installed.

    Looked up only when it is run: to read what is installed would take longer than all else that `--help` does.
    """
    from importlib.metadata import entry_points

    for found in entry_points(group=PLUGINS, name=name):
        found.load()(list(arguments), prog_name=f"sfumato {name}")
        return
    raise UsageError(f"'sfumato {name}' comes with {distribution}, which is not installed.", hint)


def verify(
    release: ReleasePath,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="Also check this certificate (sfumato report --certificate).")
    ] = None,
    signer: Annotated[
        Path | None, typer.Option("--signer", help="The publisher's public key: the release must be signed with it.")
    ] = None,
    details: Details = False,
    why: Reasons = False,
    as_json: Json = False,
) -> None:
    """Re-check all that a release alone can prove.

    Exit code 1 if anything fails. What only an audit with the private table can show is listed.
    """
    from sfumato.analyst.release import open_release

    opened = open_release(release)
    result = opened.verify(certificate, signer=signer)
    if why and result.holds:  # a broken matrix gives no reasons
        tell(opened.manifest.why, as_json)
    elif as_json:
        print_json(result.to_dict())
    elif details:
        rows = [[check.status, check.name, check.detail] for check in result.checks]
        say(listed(["status", "check", "detail"], rows, table_width()), fold=False)
    else:
        card = opened.manifest.card if result.holds else None  # of a broken matrix there is none
        say(result.summary(card).text(line_width()), fold=False)
    if not result.holds:
        raise typer.Exit(1)


def key(
    file: Annotated[Path, typer.Argument(help="The new key file.")],
    sign: Annotated[
        bool, typer.Option("--sign", help="A key for signatures, its public key beside it (FILE.pub).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key for record keys, or for signatures.

    Keep it secret, and outside every release. With it, values that stay are published alike in later releases of a
    series. This assumes that how long a value lasts says nothing about the value; that is not proved. The plan says
    what it costs where it is not so.
    """
    from sfumato.publisher.signing import SigningKey, public_file
    from sfumato.values.randomness import SecretKey

    check_private(file, "a key")
    if sign:
        fingerprint, public = SigningKey.create(file).public.fingerprint, str(public_file(file))
        if as_json:
            print_json({"file": str(file), "public_file": public, "fingerprint": fingerprint})
        else:
            say(f"Wrote {file}, readable by you alone: anyone who has it can publish in your name.")
            say(f"Wrote {public}: give it to those who check your releases (sfumato verify --signer).")
            say(f"Its fingerprint, to compare by another way: {fingerprint}")
        return
    SecretKey.create(file)
    if as_json:
        print_json({"file": str(file)})
    else:
        say(f"Wrote {file}, readable by you alone. Keep it secret: anyone who has it can undo the noise.")


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The new folder.")] = Path("sfumato-demo"),
    open_studio: Annotated[bool, typer.Option("--open", help="Then open the studio with the clinic.")] = False,
    as_json: Json = False,
) -> None:
    """Publish a synthetic clinic, and ask it three questions."""
    if open_studio:
        check_installed()
    from sfumato.cli.demo import run_demo

    made = run_demo(output)
    tell(made, as_json)
    if open_studio:
        open_page(
            made.folder / "private" / "clinic.parquet", made.folder / "private" / "policy.toml", output / "studio"
        )


# --- shared -----------------------------------------------------------------------------------------------------------


def _left_open(policy: str) -> str:
    from sfumato.publisher.policy import UNDECIDED

    number = policy.count(f' = "{UNDECIDED}')
    decisions = f"Replace the {number} text(s) that begin with {UNDECIDED}, and " if number else ""
    confirm = "confirm what is marked from_table = true: it was read off the table."
    return f"Read the comments. {decisions}{confirm if decisions else confirm.capitalize()}"


def _scanned(table: Path, policy: Path) -> Table:
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan

    return scan(table, Policy.load(policy))


@contextmanager
def _opened(table: Path, policy: Path, engine: str, master: str | None, conf: list[str] | None) -> Iterator[Table]:
    """Give the table on the engine that was asked for."""
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan, scan_on_spark

    stated = Policy.load(policy)  # before Spark starts, which takes long
    # as it was written: pathlib makes one slash of the two in s3://
    address = next((text for text in sys.argv if Path(text) == table and "://" in text), str(table))
    if "://" not in address and not table.exists():
        from sfumato.engines.embedded.sources import no_table

        raise no_table(table)
    if engine == "spark":
        from sfumato.engines.spark.engine import check_format

        check_format(stated.output.format)
    with spark_session(engine, master, conf) as spark:
        yield scan(table, stated) if spark is None else scan_on_spark(address, stated, spark)


def _probability(text: str) -> tuple[str, str]:
    """Return the column and the number of COLUMN=P."""
    name, equals, number = text.rpartition("=")
    if not equals:
        raise UsageError(f"--keep {text!r} names no probability.", "Write COLUMN=P, e.g. --keep age=0.5.")
    return name, number


def _counted(table: Table, quiet: bool, uniqueness: bool = False) -> Profile:
    from sfumato.publisher.table import profile

    with progress_bar("Counting", getattr(table.source, "rows", None), quiet) as report:
        return profile(table, report, uniqueness=uniqueness)


def _planned(table: Table, quiet: bool, shuffle: bool = False, key: SecretKey | None = None) -> Plan:
    """Count and plan as the policy asks; what a plan draws comes from the key, if there is one."""
    from sfumato.methods import plan

    counted, policy = _counted(table, quiet, uniqueness=True), table.policy
    if shuffle:
        counted = replace(counted, keeps_order=False)
    return plan(counted, policy.method, policy.requirement, key=key)


COMMANDS = (
    (init, "sfumato init patients.parquet -o policy.toml"),
    (profile, "sfumato profile patients.parquet policy.toml"),
    (plan, "sfumato plan patients.parquet policy.toml -o plan.json"),
    (risk, "sfumato risk patients.parquet policy.toml --keep age=0.5 --keep zip=0.2"),
    (publish, "sfumato publish patients.parquet policy.toml -o release/"),
    (estimate, "sfumato estimate release/ --by diagnosis --where \"sex = 'F'\""),
    (distribution, "sfumato distribution release/ pain --by sex"),
    (associate, "sfumato associate release/ --between sex,diagnosis"),
    (regress, "sfumato regress release/ \"diagnosis == 'diabetes' ~ age + C(region) * sex\""),
    (power, "sfumato power release/ --by diagnosis --where \"sex = 'F'\" --share 0.01"),
    (audit, "sfumato audit patients.parquet policy.toml release/"),
    (compare, "sfumato compare patients.parquet policy.toml --plot methods.svg"),
    (report, "sfumato report patients.parquet policy.toml release/ -o audit.html"),
    (studio, "sfumato studio patients.parquet"),
    (reproduce, "sfumato reproduce sdr-table2"),
    (verify, "sfumato verify release/"),
    (key, "sfumato key hospital.key"),
    (demo, "sfumato demo"),
)
"""All commands, each with the example in its help, in the order of `--help`."""
for _function, _example in COMMANDS:
    _settings = PASSED_ON if _function is reproduce else None
    app.command(_function.__name__, epilog=f"Example: {_example}", context_settings=_settings)(_function)
