"""Stores that fail for some seconds under a training: what they refuse waits, and arrives once they answer again.

Each fault lets a training put records for some seconds, breaks its store for up to six, lets it go on, and compares the
records of the run with those that were put: nothing may be lost, come twice or differ.
"""

import os
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
from mindscope.storage import open_store
from sqlalchemy import NullPool, create_engine, text

from ..private_postgres import PrivateServer
from ..rows import at_most
from .training import Outcome, Training, compared, total

#: Faults of each kind in the whole campaign.
_OF_A_KIND: Final = 7
#: Bytes of the file system that is filled.
_DISK_MB: Final = 24


@contextmanager
def _small_disk() -> Iterator[Path | None]:
    """A file system of its own; None where only root could mount one."""
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def full_disk(seconds: float, seed: int) -> Outcome | None:
    """Fill the disk, and free it."""
    with _small_disk() as disk:
        if disk is None:
            return None

        def fill() -> None:
            with suppress(OSError), (disk / "other").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))

        return _under(str(disk / "runs"), seed, seconds, fill, (disk / "other").unlink)


def locked_file(seconds: float, seed: int) -> Outcome | None:
    """Lock the run file from another connection, and let it go."""
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        holders: list[sqlite3.Connection] = []

        def lock() -> None:
            (path,) = Path(folder).glob("*.rank0.db")
            holders.append(sqlite3.connect(path, timeout=30, isolation_level=None))
            holders[0].execute("BEGIN IMMEDIATE")

        return _under(folder, seed, seconds, lock, lambda: holders.pop().close())


def restarted_server(server: PrivateServer, seconds: float, seed: int) -> Outcome | None:
    """Kill the server, and start it again after a while."""
    return _under(server.url, seed, seconds, server.crash, server.start)


def stopped_server(server: PrivateServer, seconds: float, seed: int) -> Outcome | None:
    """Stop all processes of the server, so that it does not answer, and let them go on."""
    first = next(one for one in psutil.process_iter(["name", "cmdline"]) if _is_of(one, server))

    def send(number: int) -> None:
        for process in (first, *first.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    return _under(server.url, seed, seconds, lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT))


def locked_table(server: PrivateServer, seconds: float, seed: int) -> Outcome | None:
    """Lock the table of new records from another connection, and let it go."""
    engine = create_engine(server.url, poolclass=NullPool)
    with closing(engine.connect()) as holder:

        def lock() -> None:
            holder.execute(text("LOCK TABLE hot IN ACCESS EXCLUSIVE MODE"))

        return _under(server.url, seed, seconds, lock, holder.rollback)


def ended_connections(server: PrivateServer, seconds: float, seed: int) -> Outcome | None:
    """End every connection of the database, three times."""
    engine = create_engine(server.url, poolclass=NullPool)

    def end() -> None:
        with engine.connect() as connection:
            mine = "pid <> pg_backend_pid() AND datname = current_database()"
            connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"))

    def end_again() -> None:
        end()
        time.sleep(0.5)
        end()

    return _under(server.url, seed, seconds, end, end_again)


def _is_of(process: psutil.Process, server: PrivateServer) -> bool:
    words = process.info["cmdline"] or []
    return bool(words) and words[0].endswith("postgres") and f"port={server.port}" in words


def _under(url: str, seed: int, seconds: float, begin: Callable[[], object], end: Callable[[], object]) -> Outcome:
    """Train for a while, with a fault in the middle."""
    chance = random.Random(seed)
    with open_store(url) as store:
        training = Training(store, f"under {seed}", seed)
        training.start()
        time.sleep(chance.uniform(0.3, 1.5))
        begin()
        try:
            time.sleep(seconds)
        finally:
            end()
        time.sleep(chance.uniform(0.5, 1.5))
        training.finish()
    with open_store(url) as store:
        return compared(store, (training,), seconds)


_OF_FILES: Final = {"a full disk": full_disk, "a locked file": locked_file}
_OF_SERVERS: Final = {
    "a server that is killed": restarted_server,
    "a server that does not answer": stopped_server,
    "a locked table": locked_table,
    "connections that are ended": ended_connections,
}


def measure(quick: bool, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures of the campaign by kind of fault, and a line for each fault that cost something."""
    count = 1 if quick else _OF_A_KIND
    found: dict[str, list[Outcome]] = {}
    for kind, of_file in _OF_FILES.items():
        found[kind] = [one for number in range(count) if (one := of_file(_length(seed, number), seed + number))]
    with PrivateServer() as server:
        for kind, of_server in _OF_SERVERS.items():
            outcomes = (of_server(server, _length(seed, number), seed + number) for number in range(count))
            found[kind] = [one for one in outcomes if one]
    rows, wrong = [], []
    for kind, outcomes in found.items():
        if not outcomes:
            wrong.append(f"{kind}: not tried, since only root can mount a file system")
            continue
        sums, case = total(outcomes), f"{len(outcomes)} times {kind}"
        rows += [at_most(0, case, name, sums[name], "records") for name in ("mixed", "counted", "uncounted")]
        rows += [at_most(None, case, "put", sums["put"], "records"), at_most(None, case, "away", sums["away_s"], "s")]
        wrong += [f"{kind}: {one}" for one in outcomes if one.mixed or one.counted or one.uncounted]
    return rows, wrong


def _length(seed: int, number: int) -> float:
    """Return for how many seconds a fault lasts."""
    return random.Random(1000 * seed + number).uniform(0.5, 6.0)
