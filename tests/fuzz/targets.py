"""What is fed with changed files: for each kind of file its seeds, and the commands that a user would give it to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sfumato.methods.plan import content_hash
from sfumato.release.folder import file_sha256, manifest_seal
from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import AUDITED, slug
from tests.golden.cases import CASES

Command = list[str]
QUESTIONS = (
    "SELECT diagnosis, COUNT(*) FROM release GROUP BY diagnosis",
    "SELECT sex, COUNT(*), AVG(visits), SUM(visits) FROM release WHERE diagnosis = 'flu' GROUP BY sex",
    "SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () FROM release GROUP BY region",
    "SELECT sex, AVG(weight) FROM release WHERE age BETWEEN 30 AND 50 OR region IN ('north', 'east') GROUP BY sex "
    "HAVING COUNT(*) > 3",
    "SELECT CASE WHEN visits > 3 THEN 'many' ELSE 'few' END AS often, COUNT(*) FROM release GROUP BY often "
    "ORDER BY 2 LIMIT 3",
    "SELECT COUNT(*) FILTER (WHERE diagnosis IN ('HIV', 'flu')), VAR_SAMP(visits), MEDIAN(visits) FROM release",
)
CONDITIONS = (
    "sex = 'F'",
    "visits > 2 AND (region = 'north' OR NOT insured)",
    "region IN ('north', 'east') AND visits BETWEEN 1 AND 5",
    "diagnosis = 'flu' AND sex LIKE 'F%'",
    "weight IS NULL OR visits * 2 + 1 >= 7",
    "CASE WHEN insured THEN visits ELSE 0 END > 1",
)
FORMULAS = (
    "diagnosis == 'flu' ~ visits + C(region) * sex",
    "diagnosis in ('flu', 'HIV') ~ log(visits) + sex:insured",
    "visits ~ C(diagnosis, ref='flu') + I(visits ** 2)",
    "diagnosis ~ sex",
    "visits ~ (sex + region + insured) ** 2 - 1",
)


@dataclass(frozen=True)
class Case:
    """A changed file in a folder of its own, and the seeds beside it."""

    folder: Path
    seeds: Path
    label: str
    content: bytes
    draw: Random

    def written(self, name: str) -> str:
        """Write the content, and return the path."""
        (self.folder / name).write_bytes(self.content)
        return str(self.folder / name)

    @property
    def text(self) -> str:
        """The content as an argument of a command, which holds no NUL."""
        return self.content.decode("utf-8", "surrogateescape").replace("\0", "")

    def seed(self, *names: str) -> str:
        return str(self.seeds.joinpath(*names))

    @property
    def new(self) -> str:
        return str(self.folder / "new")


@dataclass(frozen=True)
class Target:
    """A kind of file: how it is changed, what it is made from, the commands that get it, and how often it is tried."""

    kind: str
    seeds: Callable[[Path], dict[str, bytes]]
    commands: Callable[[Case], list[Command]]
    share: int = 1

    def content(self, folder: Path, draw: Random) -> tuple[str, bytes]:
        """Return a seed's name, and the seed changed."""
        seeds = self.seeds(folder)
        label = draw.choice(sorted(seeds))
        return label, mutated(seeds[label], self.kind, draw)


def _files(part: str, pattern: str) -> Callable[[Path], dict[str, bytes]]:
    return lambda folder: {path.stem: path.read_bytes() for path in (folder / part).glob(pattern)}


def _in_releases(*names: str) -> Callable[[Path], dict[str, bytes]]:
    return lambda folder: {
        f"{path.name}~{name}": (path / name).read_bytes()
        for path in (folder / "releases").iterdir()
        for name in names
        if (path / name).exists()
    }


def _texts(texts: Sequence[str], *releases: str) -> Callable[[Path], dict[str, bytes]]:
    return lambda folder: {f"{r}~{k}": text.encode() for k, text in enumerate(texts) for r in releases}


# --- the publisher's files --------------------------------------------------------------------------------------------


def _published(case: Case, table: str, policy: str, *more: str) -> Command:
    return ["publish", table, policy, "-o", case.new, *more]


def _policy(case: Case) -> list[Command]:
    for name in ("sex.csv", "matrix.csv"):
        shutil.copy(case.seeds / "policies" / name, case.folder)
    policy = case.written("policy.toml")
    table = case.seed("table.csv" if "from-CSV" in case.label else "table.parquet")
    key = ["--key-file", case.seed("files", "key")] if "record-key" in case.label else ["--seed", "1"]
    return [["plan", table, policy], _published(case, table, policy, *key), ["plan", table, policy, "--json"]]


def _plan(case: Case) -> list[Command]:
    try:
        raw = json.loads(case.content)
        raw["plan_hash"] = content_hash({key: value for key, value in raw.items() if key != "plan_hash"})
        content = json.dumps(raw).encode()
    except (ValueError, TypeError, AttributeError, RecursionError, KeyError):
        content = case.content
    (case.folder / "plan.json").write_bytes(content)
    policy = case.seed("policies", f"{case.label}.toml")
    return [
        _published(case, case.seed("table.parquet"), policy, "--seed", "1", "--plan", str(case.folder / "plan.json"))
    ]


def _table(suffix: str) -> Callable[[Case], list[Command]]:
    def commands(case: Case) -> list[Command]:
        table = case.written(f"table.{suffix}")
        policy = case.seed(
            "policies", f"{case.draw.choice(('uniform', 'uniform--missing-is-a-value', 'anatomy', 'uniform-csv'))}.toml"
        )
        release = case.seed("releases", AUDITED)
        return [
            _published(case, table, policy, "--seed", "1"),
            ["init", table],
            ["profile", table],
            ["plan", table, policy, "--json"],
            ["estimate", release, "--by", "diagnosis", "--truth", table],
        ]

    return commands


def _prior(case: Case) -> list[Command]:
    policy = case.folder / "policy.toml"
    policy.write_text(CASES["robust-anatomy, prior in a file"].policy)
    case.written("sex.csv")
    return [["plan", case.seed("table.parquet"), str(policy)]]


def _matrix(case: Case) -> list[Command]:
    policy = case.folder / "policy.toml"
    policy.write_text(CASES["fine-grain, a matrix from a file"].policy)
    case.written("matrix.csv")
    return [["plan", case.seed("table.parquet"), str(policy)]]


def _hierarchy(case: Case) -> list[Command]:
    column = case.label.removeprefix("hierarchy-")
    stated = ["--hierarchy", f"{column}={case.written('h.csv')}", "--method", "generalization", "--repeat", "1"]
    return [["compare", case.seed("small.parquet"), case.seed("policies", f"{AUDITED}.toml"), *stated]]


def _key(case: Case) -> list[Command]:
    policy = case.seed("policies", "uniform--record-key-and-key-file.toml")
    file = case.written("key")
    Path(file).chmod(0o600)
    return [_published(case, case.seed("table.parquet"), policy, "--key-file", file)]


# --- releases ---------------------------------------------------------------------------------------------------------


def sealed(folder: Path, manifest: bytes) -> None:
    """Write a manifest and the README that seals it, whatever it is."""
    readme = folder / "README.md"
    try:
        raw = json.loads(manifest)
        raw["readme_sha256"] = ""
        text = json.dumps(raw, indent=2, ensure_ascii=False)
        readme.write_text(f"# Release\n\n{manifest_seal(text, '')}\n", encoding="utf-8")
        raw["readme_sha256"] = file_sha256(readme)
        manifest = json.dumps(raw, indent=2, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError):
        pass
    (folder / "manifest.json").write_bytes(manifest)


def _questions(case: Case, release: str) -> list[Command]:
    name = case.label.partition("~")[0]
    found = next((c for c in CASES.values() if name.removesuffix("-csv") == slug(c.name)), CASES[AUDITED])
    hidden, value = found.sensitive, found.value
    return [
        ["verify", release],
        ["estimate", release, "--by", hidden],
        ["verify", release, "--json"],
        ["estimate", release, f"SELECT sex, COUNT(*) FROM release WHERE {hidden} = '{value}' GROUP BY sex", "--json"],
        ["associate", release, "--between", f"sex,{hidden}"],
        ["power", release, "--by", hidden],
        ["distribution", release, hidden],
        ["regress", release, f"{hidden} == '{value}' ~ sex + visits"],
        ["verify", release, "--details"],
    ]


def _copied(case: Case) -> Path:
    shutil.copytree(case.seeds / "releases" / case.label.partition("~")[0], case.folder / "release")
    return case.folder / "release"


def _manifest(case: Case) -> list[Command]:
    release = _copied(case)
    if case.draw.random() < 0.75:
        sealed(release, case.content)
    else:
        (release / "manifest.json").write_bytes(case.content)
    return _questions(case, str(release))


def _data(case: Case) -> list[Command]:
    """The file changed, and where the manifest still fits, its checksum too."""
    release, name = _copied(case), case.label.partition("~")[2]
    (release / name).write_bytes(case.content)
    raw = json.loads((release / "manifest.json").read_bytes())
    raw["groups" if name.startswith("groups") else "data"]["sha256"] = file_sha256(release / name)
    sealed(release, json.dumps(raw).encode())
    return _questions(case, str(release))


def _sql(case: Case) -> list[Command]:
    return [["estimate", case.seed("releases", case.label.partition("~")[0]), case.text]]


def _condition(case: Case) -> list[Command]:
    release, text = case.seed("releases", case.label.partition("~")[0]), case.text
    return [
        ["estimate", release, "--where", text],
        ["power", release, "--by", "diagnosis", "--where", text],
        ["associate", release, "--exposed", text, "--outcome", "diagnosis = 'flu'"],
        ["associate", release, "--exposed", "sex = 'F'", "--outcome", text],
        ["estimate", release, "--by", text],
        ["regress", release, "diagnosis == 'flu' ~ sex", "--where", text],
    ]


def _formula(case: Case) -> list[Command]:
    release = case.seed("releases", case.label.partition("~")[0])
    family = case.draw.choice(("logistic", "linear", "multinomial", "poisson"))
    return [["regress", release, case.text, "--family", family, "--interval", "wald"]]


# --- the auditor's files ----------------------------------------------------------------------------------------------


def _of_audit(case: Case) -> Command:
    return [case.seed("table.parquet"), case.seed("policies", f"{AUDITED}.toml"), case.seed("releases", AUDITED)]


def _audit_record(case: Case) -> list[Command]:
    page, named = ["-o", case.new], ["--audit", case.written("audit.json")]
    certificate = ["--certificate", str(case.folder / "certificate.json")]
    return [
        ["report", *_of_audit(case), *named, *page],
        ["report", *_of_audit(case), *named, *page, *certificate, "--public"],
    ]


def _comparison(case: Case) -> list[Command]:
    record = ["--audit", case.seed("records", "audit.json"), "--comparison", case.written("comparison.json")]
    return [["report", *_of_audit(case), *record, "-o", case.new]]


def _certificate(case: Case) -> list[Command]:
    release = case.seed("releases", AUDITED)
    return [
        ["verify", release, "--certificate", case.written("certificate.json"), *more] for more in ([], ["--details"])
    ]


def _lists(case: Case) -> list[Command]:
    option, file = f"--{case.label}", case.written("list.csv")
    given = _of_audit(case)[: 2 if case.label == "published" else 3]
    return [["audit", *given, option, file, "--seed", "1"]]


def _list_seeds(folder: Path) -> dict[str, bytes]:
    names = ("known", "external", "prior", "published")
    return {name: (folder / "files" / f"{name}.csv").read_bytes() for name in names}


ASKED = ("uniform", "anatomy", "subset--sets", "robust-anatomy", "randomized-response", "uniform-csv")
TARGETS: dict[str, Target] = {
    "policy": Target("toml", _files("policies", "*.toml"), _policy, 16),
    "plan": Target("json", _files("plans", "*.json"), _plan, 12),
    "manifest": Target("json", _in_releases("manifest.json"), _manifest, 18),
    "data": Target("parquet", _in_releases("data.parquet"), _data, 6),
    "data-csv": Target("csv", _in_releases("data.csv"), _data, 4),
    "groups": Target("parquet", _in_releases("groups.parquet"), _data, 4),
    "groups-csv": Target("csv", _in_releases("groups.csv"), _data, 2),
    "table-csv": Target("csv", _files("", "small.csv"), _table("csv"), 8),
    "table-parquet": Target("parquet", _files("", "small.parquet"), _table("parquet"), 6),
    "prior": Target("csv", _files("policies", "sex.csv"), _prior, 3),
    "matrix": Target("csv", _files("policies", "matrix.csv"), _matrix, 3),
    "hierarchy": Target("csv", _files("files", "hierarchy-*.csv"), _hierarchy, 1),
    "key": Target("bytes", _files("files", "key"), _key, 1),
    "sql": Target("text", _texts(QUESTIONS, *ASKED), _sql, 16),
    "condition": Target("text", _texts(CONDITIONS, *ASKED), _condition, 10),
    "formula": Target("text", _texts(FORMULAS, *ASKED), _formula, 8),
    "audit-record": Target("json", _files("records", "audit.json"), _audit_record, 3),
    "comparison": Target("json", _files("records", "comparison.json"), _comparison, 3),
    "certificate": Target("json", _files("records", "certificate.json"), _certificate, 4),
    "lists": Target("csv", _list_seeds, _lists, 1),
}  # fmt: skip
