"""What the studio costs: `python benchmarks/studio.py [--adult FILE] [--rows N] [--part PART]`.

previews   time from a slider to new figures; limit 200 ms for 95 of 100. A preview is a request over the loopback, from
           the form that is sent to the part of the page that comes back. On FILE (adult_complete_45222.csv, of 45,222
           rows; left out without it) and on 10 million rows that are made up.
memory     peak memory while N rows (20 million unless said) are looked at, counted, planned, signed, published,
           verified, audited and reported by the forms of the page, beside the commands of each step; the peak of the
           whole story is at most 1.2 times that of the commands
cancel     time from the button to its answer while rows are being published, when nothing of them is left; limit 1 s
columns    time of the page of roles of a table with 200 columns

Without --part all of them run. The server is `sfumato studio` in a process of its own. Memory is read from /proc, so
this runs on Linux. What a server and its job need together counts pages of files that both have, such as those of
libraries, once.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from time import perf_counter
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PREVIEWED, ROWS, BATCH, VALUES = 10_000_000, 20_000_000, 1_000_000, 40
PREVIEWS, CANCELS, COLUMNS, LOADS = 100, 5, 200, 20
MAIN = (sys.executable, "-c", "from sfumato.cli.main import main; main()")
CHOICES: dict[str, dict[str, str]] = {
    "uniform": {"method": "uniform", "kind": "rho"},
    "subset": {"method": "subset", "kind": "rho"},
    "fine-grain": {"method": "fine-grain", "kind": "rho"},
    "fine-grain, values": {"method": "fine-grain", "kind": "values", "v0.rho1": "10", "v1.rho1": "5", "v1.rho2": "40"},
    "fine-grain, tolerance": {"method": "fine-grain", "kind": "tolerance"},
}
LARGE = {"age": "quasi_identifier", "diagnosis": "sensitive"}
ADULT = {"age": "quasi_identifier", "sex": "quasi_identifier", "occupation": "sensitive"} | dict.fromkeys(
    ("workclass", "education", "marital_status", "race", "native_country", "income", "split"), "drop"
)


# --- tables -----------------------------------------------------------------------------------------------------------


def policy(folder: Path, columns: dict[str, str], more: str = "") -> Path:
    """Write a policy with these roles."""
    rules = "".join(f'[columns.{name}]\nrole = "{role}"\n' for name, role in columns.items())
    text = f'version = 1\n{rules}[method]\nname = "uniform"\n[requirement]\nrho1 = 0.2\nrho2 = 0.5\n{more}'
    (folder / "policy.toml").write_text(text, encoding="utf-8")
    return folder / "policy.toml"


def large(folder: Path, rows: int) -> Path:
    """Write a table with an age and a diagnosis, batch by batch."""
    drawn = np.random.default_rng(1)
    shares = 1 / np.arange(1, VALUES + 1)
    names = pa.array([f"diagnosis {k}" for k in range(VALUES)])
    schema = pa.schema([("age", pa.int32()), ("diagnosis", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(folder / "large.parquet", schema) as writer:
        for start in range(0, rows, BATCH):
            size = min(BATCH, rows - start)
            codes = drawn.choice(VALUES, size, p=shares / shares.sum()).astype(np.int32)
            columns = [pa.array(drawn.integers(18, 90, size, np.int32)), pa.DictionaryArray.from_arrays(codes, names)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return folder / "large.parquet"


def wide(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write a table of many columns; return it with their roles."""
    drawn = np.random.default_rng(2)
    names = [f"question_{k}" for k in range(COLUMNS - 1)]
    columns = {name: pa.array(drawn.integers(0, 12, 20_000)) for name in names}
    pq.write_table(pa.table({**columns, "answer": pa.array(drawn.integers(0, 8, 20_000))}), folder / "wide.parquet")
    return folder / "wide.parquet", dict.fromkeys(names, "other") | {"answer": "sensitive"}


# --- a server, and a browser before it --------------------------------------------------------------------------------


@dataclass
class Site:
    """A studio in a process of its own, and a browser that was let in."""

    process: subprocess.Popen[str]
    port: int
    folder: Path
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str, str]:
        """Return the status, the text and the cookie of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        with closing(connection):
            connection.request(method, path, body, {**self.headers, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers.get("set-cookie", "")

    def get(self, path: str) -> str:
        """Load a page."""
        status, text, _ = self.ask("GET", path)
        assert status == 200, text
        return text

    def post(self, path: str, fields: Sequence[tuple[str, str]] = (), **headers: str) -> str:
        """Send a form; its token goes as a header."""
        status, text, _ = self.ask("POST", path, urlencode(fields), **headers)
        assert status in (200, 303), text
        return text

    def job(self, path: str = "", fields: Sequence[tuple[str, str]] = ()) -> None:
        """Send a form and wait until its job has ended well; without one, for the job that is under way."""
        if path:
            self.post(path, fields)
        while 'data-job="running"' in (text := self.get("/job")):
            time.sleep(0.05)
        assert "failed" not in text, text

    def seen(self) -> list[tuple[str, str]]:
        """Return the field with the name of the policy that stands."""
        return [("seen", re.findall(r'name="seen" value="([^"]*)"', self.get("/sign"))[0])]

    def signed(self, name: str) -> list[tuple[str, str]]:
        """Return the form to sign with every limit ticked, of the plan that the page shows."""
        page = self.get("/sign")
        numbers, plans = (re.findall(rf'name="{field}" value="(\w+)"', page) for field in ("accept", "plan_hash"))
        accepted = [("accept", number) for number in numbers]
        return [*accepted, ("plan_hash", plans[0]), ("name", "R. Stone"), ("output", name)]


@contextmanager
def opened(table: Path, stated: Path, folder: Path) -> Iterator[Site]:
    """Open a studio as the command line does, let a browser in, and end it."""
    arguments = [*MAIN, "studio", str(table), str(stated), "--folder", str(folder), "--no-browser", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = ""
        while "}" not in told:
            told += process.stdout.readline()
        found = json.loads(told)
        port = int(found["address"].rsplit(":", 1)[1].strip("/"))
        token = re.findall(r"token=([\w-]+)", Path(found["file"]).read_text(encoding="utf-8"))[0]
        site = Site(process, port, folder)
        try:
            _, _, cookie = site.ask("GET", f"/enter?token={token}")
            site.headers = {"cookie": cookie.split(";")[0]}
            csrf = re.findall(r'name="csrf" content="([\w-]+)"', site.get("/commands"))[0]
            site.headers |= {
                "origin": f"http://127.0.0.1:{port}", "x-csrf-token": csrf,
                "content-type": "application/x-www-form-urlencoded",
            }  # fmt: skip
            yield site
        finally:
            process.terminate()


# --- previews ---------------------------------------------------------------------------------------------------------


def previews(table: Path, roles: dict[str, str], folder: Path) -> None:
    """Count a table, then move a slider under each choice."""
    with opened(table, policy(folder, roles), folder / f"{table.stem}-studio") as site:
        start = perf_counter()
        site.job("/requirement/count")
        print(f"previews of {table.name}, counted in {perf_counter() - start:.1f} s")
        for name, choice in CHOICES.items():
            seconds = [_preview(site, choice, number) for number in range(PREVIEWS)]
            middle, high, worst = 1e3 * np.quantile(seconds, [0.5, 0.95, 1])
            print(f"  {name:<24} median {middle:6.1f} ms   95% {high:6.1f} ms   worst {worst:6.1f} ms", flush=True)


def _preview(site: Site, choice: dict[str, str], number: int) -> float:
    """Return the seconds of one preview, another one each time."""
    moved = f"{30 + number * 0.4:.1f}"
    fields = {"rho1": "20", "rho2": moved, "others1": "20", "others2": moved, "v0.rho2": moved}
    fields |= {"tolerance": f"{2 + number / 50:.2f}", **choice, "seen": "policy-0001.toml"}
    start = perf_counter()
    text = site.post("/requirement/preview", [*fields.items()], **{"x-fragment": "1"})
    seconds = perf_counter() - start
    assert "records stay true" in text, text
    return seconds


# --- memory -----------------------------------------------------------------------------------------------------------


@dataclass
class Peaks:
    """The most memory that processes had, in MB: a process, the largest of its children, and all at one time."""

    own: float = 0.0
    child: float = 0.0
    together: float = 0.0

    def look(self, process: int) -> None:
        """Look at a process and its children once; pages of files, which they share, count once among all of them."""
        every = [_status(each) for each in (process, *_children(process))]
        self.own = max(self.own, every[0]["VmHWM"])
        self.child = max([self.child, *(each["VmHWM"] for each in every[1:])])
        self.together = max(
            self.together, sum(each["RssAnon"] for each in every) + max(each["RssFile"] for each in every)
        )


def _children(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def _status(process: int) -> dict[str, float]:
    """Return figures of a process in MB; 0 of one that has ended."""
    names, text = ("VmHWM", "RssAnon", "RssFile"), ""
    with suppress(OSError):
        text = Path(f"/proc/{process}/status").read_text()
    found = {name: re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE) for name in names}
    return {name: int(each[1]) / 1024 if each else 0.0 for name, each in found.items()}


@contextmanager
def watched(process: int) -> Iterator[Peaks]:
    """Look at a process and its children again and again."""
    peaks, ended = Peaks(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            peaks.look(process)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def memory(table: Path, rows: int, folder: Path) -> None:
    """Take the same steps by commands and by the page, one after the other."""
    stated, plan, release = policy(folder, LARGE), str(folder / "plan.json"), str(folder / "by-commands")
    given, audit = [str(table), str(stated)], str(folder / "audit.json")
    with opened(table, stated, folder / "memory-studio") as site:
        steps: list[tuple[str, list[list[str]], Callable[[], None]]] = [
            ("look at the table", [["init", str(table), "-o", str(folder / "proposal.toml")]], lambda: _look(site)),
            ("count", [["profile", *given]], lambda: site.job("/requirement/count")),
            ("plan", [["plan", *given, "-o", plan]], lambda: site.job("/sign/prepare", site.seen())),
            ("publish and verify", [["publish", *given, "--plan", plan, "-o", release], ["verify", release]],
             lambda: site.job("/sign/publish", site.signed("release"))),
            ("audit", [["audit", str(table), release, "--policy", str(stated), "-o", audit]],
             lambda: site.job("/audit/run")),
            ("report", [["report", *given, release, "--audit", audit, "-o", str(folder / "report.html")]],
             lambda: site.job("/audit/report")),
        ]  # fmt: skip
        print(f"memory in MB, {rows:,} rows     commands   its job   server and job together   ratio")
        most, whole, by_page = 0.0, 0.0, Peaks()
        for name, lines, do in steps:
            commands = [_command(line) for line in lines]
            with watched(site.process.pid) as found:
                do()
            resident = max(each.own for each in commands)
            together = max(each.together for each in commands)
            told = f"{found.child:9.0f} {found.together:25.0f} {found.together / together:7.2f}"
            print(f"  {name:<28} {resident:8.0f} {told}", flush=True)
            most, whole = max(most, resident), max(whole, together)
            by_page = Peaks(*map(max, zip(astuple(by_page), astuple(found), strict=True)))
        assert (site.folder / "release" / "manifest.json").exists()
    print(f"  the server itself: {by_page.own:.0f} resident")
    print(f"  largest process of the studio / of the commands   {max(by_page.own, by_page.child) / most:.2f}")
    print(f"  server and job together / largest command         {by_page.together / whole:.2f}", flush=True)


def _look(site: Site) -> None:
    site.get("/table")
    site.job()


def _command(line: Sequence[str]) -> Peaks:
    with subprocess.Popen([*MAIN, *line], stdout=subprocess.DEVNULL) as process, watched(process.pid) as peaks:
        assert process.wait() == 0
    return peaks


# --- cancelling, and many columns -------------------------------------------------------------------------------------


def cancel(table: Path, folder: Path) -> None:
    """Cancel publications whose first rows have been written."""
    stated = policy(folder, LARGE, '[output]\nformat = "csv"\n')  # slow enough to be caught in the middle
    seconds = []
    with opened(table, stated, folder / "cancel-studio") as site:
        site.job("/sign/prepare", site.seen())
        for number in range(CANCELS):
            site.post("/sign/publish", site.signed(f"release-{number}"))
            while not any(file.stat().st_size for file in site.folder.glob(".release-*.partial-*/release/*")):
                time.sleep(0.01)
            start = perf_counter()
            site.post("/cancel", [("back", "/sign")])
            seconds.append(perf_counter() - start)
            assert "Publishing was cancelled" in site.get("/sign")
            assert not [*site.folder.glob(".release-*"), *site.folder.glob("release-*")]
    print(f"cancel while rows are written    median {statistics.median(seconds):.2f} s   worst {max(seconds):.2f} s")


def columns(folder: Path) -> None:
    """Load the page of roles of a table with many columns."""
    table, roles = wide(folder)
    with opened(table, policy(folder, roles), folder / "wide-studio") as site:
        site.get("/table")
        site.job()
        seconds = [_loaded(site) for _ in range(LOADS)]
        size = len(site.get("/roles")) / 1e3
    middle, high = 1e3 * np.quantile(seconds, [0.5, 0.95])
    print(f"roles of {COLUMNS} columns             median {middle:.0f} ms   95% {high:.0f} ms   {size:,.0f} kB")


def _loaded(site: Site) -> float:
    start = perf_counter()
    text = site.get("/roles")
    seconds = perf_counter() - start
    assert text.count('class="column panel"') == COLUMNS
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--part", choices=("previews", "memory", "cancel", "columns"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts: dict[str, Callable[[], None]] = {
            "previews": lambda: _previews(folder, given.adult),
            "memory": lambda: memory(large(folder, given.rows), given.rows, folder),
            "cancel": lambda: cancel(large(folder, given.rows), folder),
            "columns": lambda: columns(folder),
        }
        for name, run in parts.items():
            if given.part in (None, name):
                run()


def _previews(folder: Path, adult: Path | None) -> None:
    if adult is not None:
        previews(adult, ADULT, folder)
    previews(large(folder, PREVIEWED), LARGE, folder)


if __name__ == "__main__":
    main()
