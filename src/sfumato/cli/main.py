"""sfumato's commands. Modules that take long to load are imported where they are used: `--help` must be quick."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import show
from sfumato.errors import SfumatoError, UsageError

if TYPE_CHECKING:
    from sfumato.plans import Plan
    from sfumato.table import Table

INTERRUPTED = 128 + 2
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Publish microdata by blurring every record and keeping the picture. "
    "Exit codes: 0 fine, 1 a request that cannot be met, 2 wrong use.",
)

TablePath = Annotated[Path, typer.Argument(help="Parquet, CSV, CSV.gz, or a folder of Parquet files.")]
PolicyPath = Annotated[Path, typer.Argument(help="The policy, in TOML.")]
ReleasePath = Annotated[Path, typer.Argument(help="The folder of a release.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys (docs/json.md).")]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Shuffle the rows in any case.")]
NewFolder = Annotated[Path, typer.Option("--output", "-o", help="The new folder of the release.")]


def main() -> None:
    """Run the command line; every error of ours becomes a message and an exit code."""
    as_json = "--json" in sys.argv
    try:
        with show.ended_cleanly():
            app(standalone_mode=True)
    except SfumatoError as problem:
        sys.exit(show.fail(problem, as_json))
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer's own, which says nothing
            print("Interrupted: nothing was published.", file=sys.stderr)
        raise
    except BrokenPipeError:
        sys.exit(0)
    except OSError as problem:  # of files beside the release: a plan, a key
        sys.exit(show.fail(UsageError(f"{problem.filename or 'A file'}: {problem.strerror or problem}."), as_json))


def command(name: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command with an example in its help."""
    return app.command(name, epilog=f"Example: {example}")


@command("init", "sfumato init patients.parquet -o policy.toml")
def init(
    table: TablePath,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The new policy file.")] = None,
    as_json: Json = False,
) -> None:
    """Propose a policy for a table, with the reasons as comments. Read it before you use it."""
    from sfumato.engines.sources import open_source
    from sfumato.proposal import propose

    _check_absent(output)
    text = propose(open_source(table))
    if output is not None:
        output.write_text(text, encoding="utf-8")
    if as_json:
        show.print_json({"policy": text, "file": None if output is None else str(output)})
    else:
        print(text if output is None else f"Wrote {output}. Read the comments, and decide what they leave to you.")


@command("profile", "sfumato profile patients.parquet policy.toml")
def profile(
    table: TablePath,
    policy: Annotated[Path | None, typer.Argument(help="The policy; without one, columns only.")] = None,
    as_json: Json = False,
) -> None:
    """Count a table: columns, uniqueness, skew, row order, columns that give the secret away, what is "
    "feasible. Private."""
    from sfumato.engines.sources import open_source
    from sfumato.survey import survey

    opened = None if policy is None else _scanned(table, policy)
    source = open_source(table) if opened is None else opened.source
    with show.progress_bar("Counting", getattr(source, "rows", None), as_json) as report:
        result = survey(source, opened, report)
    if as_json:
        show.print_json(result.to_dict())
    else:
        print(result.explain())


@command("plan", "sfumato plan patients.parquet policy.toml -o plan.json")
def plan(
    table: TablePath,
    policy: PolicyPath,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the plan, to be signed off.")] = None,
    shuffle: Shuffle = False,
    as_json: Json = False,
) -> None:
    """Explain what would be published, why, and at what cost; write nothing of it. Private."""
    _check_absent(output)
    opened = _scanned(table, policy)
    made = _planned(opened, as_json, shuffle).bound_to(opened.hash(), opened.policy.hash())
    if output is not None:
        output.write_text(made.to_json(), encoding="utf-8")
    if as_json:
        show.print_json(made.to_dict())
    else:
        print(made.explain())
        if output is not None:
            print(f"\nWrote {output}, plan {made.to_dict()['plan_hash'][:12]}. Exactly this is published by")
            print(f"  sfumato publish {table} {policy} --plan {output} -o DIR")


@command("publish", "sfumato publish patients.parquet policy.toml -o release/")
def publish(
    table: TablePath,
    policy: PolicyPath,
    output: NewFolder,
    plan_file: Annotated[Path | None, typer.Option("--plan", help="Publish exactly this plan.")] = None,
    key_file: Annotated[Path | None, typer.Option("--key-file", help="Key for a policy with a record_key.")] = None,
    shuffle: Shuffle = False,
    seed: Annotated[int | None, typer.Option("--seed", help='For tests; marks the release "not for release".')] = None,
    as_json: Json = False,
) -> None:
    """Publish a table: a folder with data, manifest and README, whole or not at all."""
    from sfumato.plans import Plan
    from sfumato.publishing import check_new, publish
    from sfumato.randomness import SecretKey

    if seed is not None and key_file is not None:
        raise UsageError("--seed and --key-file exclude each other.")
    check_new(output)
    opened = _scanned(table, policy)
    key = SecretKey.load(key_file) if key_file else None if seed is None else SecretKey.from_seed(seed)
    if plan_file is None:
        made = _planned(opened, as_json, shuffle)
    else:
        if shuffle:
            raise UsageError("--shuffle cannot change a plan that was signed off.", "Plan with it instead.")
        made = Plan.load(plan_file)
    with show.progress_bar("Publishing", made.rows + made.dropped, as_json) as report:
        release = publish(opened, made, output, key=key, progress=report)
    manifest = release.manifest
    if as_json:
        show.print_json({"folder": str(output), "manifest": manifest.model_dump(mode="json")})
        return
    print(f"Published {manifest.data.rows:,} records to {output} (release {manifest.release_id}).")
    print(manifest.guarantee.sentence)
    for limit in manifest.guarantee.limits:
        print(f"Limit: {limit}")
    if manifest.status != "release":
        print("NOT FOR RELEASE: drawn from a test seed, which anyone can repeat.")


@command("estimate", "sfumato estimate release/ --by diagnosis --where \"sex = 'F'\"")
def estimate(
    release: ReleasePath,
    query: Annotated[
        str, typer.Argument(help='One SELECT, e.g. "SELECT sex, AVG(age) FROM release GROUP BY sex".')
    ] = "",
    by: Annotated[
        list[str] | None, typer.Option("--by", help="Columns to group by; repeat or separate by commas.")
    ] = None,
    where: Annotated[str, typer.Option("--where", help="A condition on untouched columns.")] = "",
    weight: Annotated[str, typer.Option("--weight", help="A column of survey weights, for a query.")] = "",
    method: Annotated[str, typer.Option("--method", help="inverse (unbiased), projected or em.")] = "inverse",
    target: Annotated[str, typer.Option("--target", help="Intervals for this table, or for the population.")] = "table",
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
    as_json: Json = False,
) -> None:
    """Estimate counts with standard errors and intervals, from the release alone."""
    from sfumato.release import open_release

    opened = open_release(release)
    if query:
        if by or where or method != "inverse":
            raise UsageError("--by, --where and --method do not go with a query.", "Say all of it in the query.")
        answer = opened.sql(query, weight=weight, target=target, level=level)  # type: ignore[arg-type]
    else:
        if weight:
            raise UsageError("--weight goes with a query.", 'E.g. "SELECT COUNT(*) FROM release".')
        columns = _split_names(by or [], opened.column_names)
        answer = opened.count(columns, where, method=method, target=target, level=level)  # type: ignore[arg-type]
    if as_json:
        show.print_json(
            {
                "method": answer.method,
                "target": answer.target,
                "level": answer.level,
                "rows": [{k: _jsonable(v) for k, v in row.items()} for row in answer.rows()],
                "notes": list(answer.notes),
            }
        )
        return
    numbers = ("estimate", "standard_error", "lower", "upper")
    rows = [
        [*(_shown(row[name]) for name in answer.by), *(_number(row[name]) for name in numbers)] for row in answer.rows()
    ]
    print(show.table([*answer.by, *numbers], rows, [False] * len(answer.by) + [True] * len(numbers)))
    for note in answer.notes:
        print(note)


@command("verify", "sfumato verify release/")
def verify(release: ReleasePath, as_json: Json = False) -> None:
    """Re-check all that a release alone proves; list what needs an audit. Exit code 1 if anything fails."""
    from sfumato.release import open_release

    result = open_release(release).verify()
    if as_json:
        show.print_json(result.to_dict())
    else:
        print(
            show.table(
                ["status", "check", "detail"],
                [[c.status, c.name, c.detail] for c in result.checks],
                [False] * 3,
            )
        )
    if not result.holds:
        raise typer.Exit(1)


@command("key", "sfumato key hospital.key")
def key(file: Annotated[Path, typer.Argument(help="The new key file.")], as_json: Json = False) -> None:
    """Make a key file for policies with a record_key. Keep it secret, and outside every release."""
    from sfumato.randomness import SecretKey

    SecretKey.create(file)
    if as_json:
        show.print_json({"file": str(file)})
    else:
        print(f"Wrote {file}, readable by you alone. Whoever has it can undo the noise.")


@command("demo", "sfumato demo")
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The new folder.")] = Path("sfumato-demo"),
    as_json: Json = False,
) -> None:
    """Make a synthetic clinic, publish it, ask three questions, verify; all in one folder, told in plain words."""
    from sfumato.cli.demo import run_demo

    result = run_demo(output)
    if as_json:
        show.print_json(result.to_dict())
    else:
        print(result.story())


SMALL = 5
"""Numbers below are shown with more digits: shares, averages, small counts."""

# --- shared -----------------------------------------------------------------------------------------------------------


def _check_absent(file: Path | None) -> None:
    if file is not None and file.exists():
        raise UsageError(f"{str(file)!r} exists already.", "Choose another name, or remove it.")


def _scanned(table: Path, policy: Path) -> Table:
    from sfumato.policy import Policy
    from sfumato.table import scan

    return scan(table, Policy.load(policy))


def _planned(table: Table, quiet: bool, shuffle: bool = False) -> Plan:
    """Count and plan as the policy asks."""
    from sfumato.methods import plan
    from sfumato.table import profile

    with show.progress_bar("Counting", getattr(table.source, "rows", None), quiet) as report:
        counted = profile(table, report)
    arguments = table.policy.plan_arguments()
    return plan(counted, **(arguments | {"shuffle": True} if shuffle else arguments))


def _split_names(given: list[str], columns: tuple[str, ...]) -> list[str]:
    """Return the column names; commas separate them, unless a column has one in its name."""
    return [name for text in given for name in ([text] if text in columns else [t.strip() for t in text.split(",")])]


def _shown(value: Any) -> str:
    return "(missing)" if value is None else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if abs(value) >= SMALL else f"{value:.4f}"


def _jsonable(value: Any) -> Any:
    finite = not isinstance(value, float) or math.isfinite(value)  # JSON has no NaN and no infinity
    return value if value is None or (finite and isinstance(value, bool | int | float | str)) else str(value)
