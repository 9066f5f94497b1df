"""Trainings that are killed with SIGKILL at a random moment: how many records are lost, and whether the rest is right.

The training is a process of its own that puts records into a queue and prints the step after each; the records that
its run holds afterwards must be the first ones, bit for bit, and at most as many may be missing as the queue takes.
"""

import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from mindscope.storage import StoreError, open_store
from mindscope.storage.writing.record_queue import CAPACITY

from ..rows import at_most
from .training import bits, made_record

#: Kills of the whole campaign.
KILLS: Final = 200

_TRAIN: Final = """
import random, sys, time
from mindscope.storage import QueueWriter, open_store
from benchmarks.reliability.training import made_record
folder, seed, sites, pace_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
queue = QueueWriter(open_store(folder).begin_run("killed", run_id="killed"))
pauses = random.Random(seed)
for step in range(10**9):
    queue.put(made_record(seed, step, sites))
    print(step, flush=True)
    if pace_s:
        time.sleep(pauses.uniform(0, 2 * pace_s))
"""


def kill(seed: int) -> tuple[int, str]:
    """Kill one training; return how many of its records are lost, and what is wrong with the rest, if anything is."""
    chance = random.Random(seed)
    sites, pace_s = chance.choice([5, 50, 400]), chance.choice([0.0, 0.0, 0.001, 0.01])
    last = chance.randint(5, 60 if pace_s == 0.01 else 800)
    with tempfile.TemporaryDirectory(prefix="kills") as folder:
        words = [sys.executable, "-c", _TRAIN, folder, str(seed), str(sites), str(pace_s)]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert child.stdout is not None
        put = next(step for step in map(int, child.stdout) if step >= last)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split()
        child.wait()
        child.stdout.close()
        put = max([put, *map(int, rest)]) + 1  # a torn last number is smaller than the one before
        try:
            with open_store(folder) as store:
                damage = store.verify("killed")
                found = [(record.step, bits(record)) for record in store.replay("killed")]
        except StoreError as error:
            return put, f"seed {seed}: {error}"
    if damage:
        return put - len(found), f"seed {seed}: {damage[0]}"
    expected = [(step, bits(made_record(seed, step, sites))) for step in range(len(found))]
    return put - len(found), "" if found == expected else f"seed {seed}: the records differ from those that were put"


def measure(quick: bool, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures of the campaign, and a line for each kill after which something was wrong."""
    count = KILLS // 10 if quick else KILLS
    outcomes = [kill(number) for number in range(seed, seed + count)]
    lost = sorted(max(one, 0) for one, _ in outcomes)
    wrong = [words for _, words in outcomes if words]
    case = f"{count} trainings killed"
    return [
        at_most(CAPACITY, case, "lost, most", lost[-1], "records"),
        at_most(None, case, "lost, median", lost[count // 2], "records"),
        at_most(0, case, "runs that are damaged or differ", len(wrong), "runs"),
    ], wrong
