"""Many runs in one PostgreSQL database: what a read, a list and a deletion cost as they become more.

    python benchmarks/store_runs.py [--json] [--quick]

Beside it what it would cost to keep each run in partitions of its own: a table like the one of compacted blocks, with a
partition for every run, as many as there are runs, and the same read and deletion of it by SQL alone.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import psycopg
from environment import machine
from mindscope.storage import open_store
from mindscope.storage.store import Store
from private_postgres import PrivateServer
from rows import at_most
from store import Training

_STEPS, _TENSORS, _REPEATS = 200, 50, 20
_METRIC = "gradient/l2_norm"
#: A read and a deletion may take so many times as long among all runs as among the first few.
_FLAT = 1.5


def add_runs(store: Store, count: int, records: list[Any]) -> list[str]:
    """Write so many finished runs; return their ids."""
    made = []
    for number in range(count):
        writer = store.begin_run(f"many-{number}")
        for begin in range(0, len(records), 64):
            writer.write(records[begin : begin + 64])
        while writer.maintain():
            pass
        writer.close()
        made.append(writer.run.id)
    return made


def typical_ms(action: Callable[[int], object], repeats: int = _REPEATS) -> float:
    """Return the median of some calls."""
    times = []
    for at in range(repeats):
        begin = time.perf_counter()
        action(at)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def of_the_store(url: str, counts: list[int]) -> dict[int, dict[str, float]]:
    """Return what each operation takes in ms when there are so many runs."""
    found: dict[int, dict[str, float]] = {}
    records = Training(_TENSORS).take(_STEPS)
    runs: list[str] = []
    with open_store(url) as store:

        def series(at: int) -> object:
            return store.series(runs[-1 - at % 5], f"layer.{at}", _METRIC)

        def matrix(at: int) -> object:
            return store.matrix(runs[-1 - at % 5], _METRIC)

        def delete(_at: int) -> None:
            store.delete_run(runs.pop(0))

        for count in counts:
            runs += add_runs(store, count - len(runs), records)
            found[count] = {
                "series": typical_ms(series),
                "matrix": typical_ms(matrix),
                "list of 50 runs": typical_ms(lambda _at: store.runs(limit=50)),
                "deletion": typical_ms(delete, 5),
            }
            runs += add_runs(store, 5, records)
    return found


def of_partitions(url: str, counts: list[int]) -> dict[int, dict[str, float]]:
    """Return the same of a table with a partition for each run: to make one, to read from one, to drop one."""
    found: dict[int, dict[str, float]] = {}
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE parted (run bigint, stream bigint, tier int, statistic int, site_group int, first bigint, "
            "data bytea, PRIMARY KEY (run, stream, tier, statistic, site_group, first)) PARTITION BY LIST (run)"
        )

        def read(at: int) -> object:
            query = f"SELECT data FROM parted WHERE stream = 2 AND tier = 1 AND run = {at % 5}"
            return connection.execute(query).fetchall()

        def read_joined(at: int) -> object:
            query = f"SELECT data FROM parted JOIN (SELECT {at % 5}::bigint AS run) wanted USING (run) WHERE stream = 2"
            return connection.execute(query).fetchall()

        known = 0
        for count in counts:
            for run in range(known, count):
                connection.execute(f"CREATE TABLE parted_{run} PARTITION OF parted FOR VALUES IN ({run})")
                connection.execute(
                    "INSERT INTO parted SELECT %s, s, 1, t, 0, 0, repeat('x', 2000)::bytea "
                    "FROM generate_series(1, 3) s, generate_series(0, 9) t",
                    (run,),
                )
            known = count

            def make(at: int, base: int = known) -> None:
                number = base + 100_000 + at
                connection.execute(f"CREATE TABLE parted_{number} PARTITION OF parted FOR VALUES IN ({number})")

            found[count] = {
                "read, run in the text": typical_ms(read),
                "read, run by a join": typical_ms(read_joined),
                "a partition made": typical_ms(make, 5),
            }
    return found


def measure(counts: list[int]) -> list[dict[str, Any]]:
    """Return the rows of both."""
    with PrivateServer({"max_locks_per_transaction": "1024"}) as server:
        ours = of_the_store(server.url, counts)
        parted = of_partitions(server.url, counts)
    rows = []
    first, last = counts[0], counts[-1]
    for operation in ours[first]:
        rows += [at_most(None, f"{count} runs", operation, ours[count][operation], "ms") for count in counts]
        growth = ours[last][operation] / ours[first][operation]
        rows.append(at_most(_FLAT, f"{last} runs over {first}", operation, growth, "ratio"))
    for operation in parted[first]:
        rows += [
            at_most(None, f"{count} partitions, SQL alone", operation, parted[count][operation], "ms")
            for count in counts
        ]
    return rows


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="up to 100 runs instead of 1,000")
    options = parser.parse_args()
    rows = measure([50, 100] if options.quick else [100, 1000])
    if options.json:
        versions = {"python": platform.python_version(), **{name: version(name) for name in ("sqlalchemy", "psycopg")}}
        document = {"benchmark": "store_runs", "machine": machine(), "versions": versions, "results": rows}
        json.dump(document, sys.stdout, indent=1)
        return
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row["ok"]]
        print(f"{row['case']:<30} {row['metric']:<24} {row['value']:>10.2f} {row['unit']:<6} {verdict}")


if __name__ == "__main__":
    main()
