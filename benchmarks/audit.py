"""The audit of Adult's 45,222 complete records, for each method: seconds of every attacker, 30 in all at most.

SFUMATO_DATA=folder python benchmarks/audit.py              --method anatomy for one of them
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import sfumato as sf

FILE = "adult_complete_45222.parquet"
LIMIT = 30.0
QUASI = ("age", "education", "sex", "race")
SENSITIVE = "occupation"
METHODS = {
    "uniform": ('name = "uniform"', 'rho1 = "1/5"\nrho2 = "1/2"', ""),
    "uniform, shuffled": ('name = "uniform"', 'rho1 = "1/5"\nrho2 = "1/2"', '[output]\norder = "shuffle"'),
    "fine-grain": ('name = "fine-grain"\nretention_floor = 0.1', 'rho1 = "1/5"\nrho2 = "1/2"', ""),
    "small-domain": ('name = "small-domain"', 'rho1 = "1/4"\nrho2 = "1/2"', ""),
    "small-domain, shuffled": ('name = "small-domain"', 'rho1 = "1/4"\nrho2 = "1/2"', '[output]\norder = "shuffle"'),
    "randomized-response": ('name = "randomized-response"', "l = 3", ""),
    "anatomy": ('name = "anatomy"', "l = 3", ""),
    "suppression": ('name = "suppression"', "l = 9", ""),
    "robust-anatomy": ('name = "robust-anatomy"\nattribute_sets = [["education"]]\nprior = "table"', "r = 3", ""),
}


def policy(columns: list[str], method: str, requirement: str, more: str) -> sf.Policy:
    roles = {name: "quasi_identifier" if name in QUASI else "other" for name in columns} | {SENSITIVE: "sensitive"}
    as_is = {"fnlwgt": 'publish_as_is = "a weight of the survey"'}  # nearly unique
    stated = "\n".join(f'[columns."{name}"]\nrole = "{role}"\n{as_is.get(name, "")}' for name, role in roles.items())
    return sf.Policy.parse(f"{stated}\n[method]\n{method}\n[requirement]\n{requirement}\n{more}")


def main() -> None:
    import pyarrow.parquet as pq

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=[*METHODS, "all"], default="all")
    parser.add_argument("--explain", action="store_true", help="print the whole audit")
    options = parser.parse_args()
    path = Path(os.environ["SFUMATO_DATA"]) / FILE
    columns = list(pq.read_schema(path).names)
    for name, (method, requirement, more) in METHODS.items():
        if options.method not in ("all", name):
            continue
        table = sf.scan(path, policy(columns, method, requirement, more))
        plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
        with tempfile.TemporaryDirectory() as folder:
            release = sf.publish(table, plan, Path(folder) / "release")
            start, busy = time.perf_counter(), time.process_time()
            found = sf.audit(table, release, seed=1)
            total, busy = time.perf_counter() - start, time.process_time() - busy
        longest = sorted(found.seconds.items(), key=lambda pair: -pair[1])[:4]
        told = ", ".join(f"{attacker} {seconds:.1f}" for attacker, seconds in longest)
        late = " TOO LONG" if total > LIMIT else ""
        print(f"{name:24} {total:6.1f} s, {busy:5.1f} s of CPU{late}   {found.worst_verdict}   ({told})", flush=True)
        if options.explain:
            print(found.explain())


if __name__ == "__main__":
    main()
