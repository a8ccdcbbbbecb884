"""Time from a slider to new figures in the studio: `python benchmarks/studio.py [ADULT]`.

ADULT is the file adult_complete_45222.csv, of 45,222 rows; without it that part is left out. A table of 10 million
rows is made in a temporary folder. Each is counted once; a preview then is a request over the loopback, from the form
that is sent to the part of the page that comes back.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from sfumato.studio.desk.app import desk_app
from sfumato.studio.desk.desk import Desk, open_desk
from sfumato.studio.web.guard import FORM, Guard, Keys
from sfumato.studio.web.serve import listening

ROWS, BATCH, VALUES = 10_000_000, 1_000_000, 40
PREVIEWS = 100
CHOICES: dict[str, dict[str, str]] = {
    "uniform": {"method": "uniform", "kind": "rho"},
    "subset": {"method": "subset", "kind": "rho"},
    "fine-grain": {"method": "fine-grain", "kind": "rho"},
    "fine-grain, values": {"method": "fine-grain", "kind": "values", "v0.rho1": "10", "v1.rho1": "5", "v1.rho2": "40"},
    "fine-grain, tolerance": {"method": "fine-grain", "kind": "tolerance"},
}

Ask = Callable[[dict[str, str]], str]


def policy(columns: dict[str, str]) -> str:
    """Return a policy with these roles."""
    rules = "".join(f'[columns.{name}]\nrole = "{role}"\n' for name, role in columns.items())
    return f'version = 1\n{rules}[method]\nname = "uniform"\n[requirement]\nrho1 = 0.2\nrho2 = 0.5\n'


def large(folder: Path) -> Path:
    """Write a table of ten million rows, batch by batch."""
    drawn = np.random.default_rng(1)
    shares = 1 / np.arange(1, VALUES + 1)
    names = pa.array([f"diagnosis {k}" for k in range(VALUES)])
    schema = pa.schema([("age", pa.int32()), ("diagnosis", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(folder / "large.parquet", schema) as writer:
        for _ in range(ROWS // BATCH):
            codes = drawn.choice(VALUES, BATCH, p=shares / shares.sum()).astype(np.int32)
            columns = [pa.array(drawn.integers(18, 90, BATCH, np.int32)), pa.DictionaryArray.from_arrays(codes, names)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return folder / "large.parquet"


@contextmanager
def asking(desk: Desk) -> Iterator[Ask]:
    """Serve a desk, and give a function that asks it for a preview."""
    tokens: list[str] = []
    keys = Keys(tokens.append)
    with listening(0) as listener:
        port = listener.getsockname()[1]
        app = Guard(desk_app(desk, keys.csrf), keys, port)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {
            "cookie": f"sfumato-{port}={keys.cookie}", "origin": f"http://127.0.0.1:{port}", "content-type": FORM,
            "x-csrf-token": keys.csrf, "x-fragment": "1",
        }  # fmt: skip

        def ask(fields: dict[str, str]) -> str:
            connection.request("POST", "/requirement/preview", urlencode(fields), headers)
            return connection.getresponse().read().decode()

        try:
            yield ask
        finally:
            connection.close()
            server.should_exit = True
            thread.join()


def measured(table: Path, roles: dict[str, str], folder: Path) -> None:
    """Count a table, then move a slider under each choice."""
    (folder / "policy.toml").write_text(policy(roles), encoding="utf-8")
    desk = open_desk(table, folder / "policy.toml", folder / f"{table.stem}-studio")
    start = perf_counter()
    desk.count()
    desk.jobs.wait()
    counted = desk.last_counted
    assert counted is not None, desk.jobs.last
    print(f"{table.name}: {counted.rows:,} rows, counted in {perf_counter() - start:.1f} s")
    with asking(desk) as ask:
        for name, choice in CHOICES.items():
            seconds = [timed(ask, choice, number) for number in range(PREVIEWS)]
            middle, high, worst = 1e3 * np.quantile(seconds, [0.5, 0.95, 1])
            print(f"  {name:<24} median {middle:6.1f} ms   95% {high:6.1f} ms   worst {worst:6.1f} ms")


def timed(ask: Ask, choice: dict[str, str], number: int) -> float:
    """Return the seconds of one preview, another one each time."""
    moved = f"{30 + number * 0.4:.1f}"
    fields = {"rho1": "20", "rho2": moved, "others1": "20", "others2": moved, "v0.rho2": moved}
    start = perf_counter()
    text = ask({**fields, "tolerance": f"{2 + number / 50:.2f}", **choice})
    seconds = perf_counter() - start
    assert "records stay true" in text, text
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            dropped = ("workclass", "education", "marital_status", "race", "native_country", "income", "split")
            roles = {"age": "quasi_identifier", "sex": "quasi_identifier", "occupation": "sensitive"}
            measured(Path(sys.argv[1]), roles | dict.fromkeys(dropped, "drop"), Path(folder))
        measured(large(Path(folder)), {"age": "quasi_identifier", "diagnosis": "sensitive"}, Path(folder))


if __name__ == "__main__":
    main()
