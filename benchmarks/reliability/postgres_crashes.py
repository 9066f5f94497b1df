"""Crashes of a PostgreSQL server in the middle of trainings: what is lost, and whether runs are mixed.

Each crash kills every process of a private server while run A is written, restarts it, begins run B at once, goes on
with both, and compares the records that each run replays with those that were put, bit for bit. A record that the store
refused while the server was away is counted by the writer; one that it acknowledged must be there. The server flushes
its log ten times less often than by default, so that each crash takes some seconds of acknowledged commits back.
"""

import random
import time
from typing import Any, Final

from mindscope.storage import open_store

from ..private_postgres import LAZY, PrivateServer
from ..rows import at_most
from .training import Outcome, Training, compared, total

#: Crashes of the whole campaign.
CRASHES: Final = 50


def crash(server: PrivateServer, seed: int) -> Outcome:
    """Crash the server once while run A is written, and begin run B on the restarted one."""
    chance = random.Random(seed)
    with open_store(server.url) as store:
        first = Training(store, f"a{seed}", seed)
        first.start()
        time.sleep(chance.uniform(0.3, 3.0))
        began = time.monotonic()
        server.crash()
        time.sleep(chance.choice([0.0, 0.0, chance.uniform(0.1, 1.5)]))
        server.start()
        away_s = time.monotonic() - began
        with open_store(server.url) as other:
            second = Training(other, f"b{seed}", seed + 10_000)
            second.start()
            time.sleep(chance.uniform(1.5, 3.0))
            first.finish()
            second.finish()
    with open_store(server.url) as store:
        return compared(store, (first, second), away_s)


def measure(quick: bool, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures of the campaign, and a line for each crash after which something was wrong."""
    outcomes = {}
    with PrivateServer(LAZY) as server:
        for number in range(seed, seed + (CRASHES // 10 if quick else CRASHES)):
            outcomes[number] = crash(server, number)
    targets = {"mixed": 0, "uncounted": 0}
    case = f"{len(outcomes)} crashes of PostgreSQL"
    rows = [
        at_most(targets.get(name), case, name, value, "s" if name == "away_s" else "records")
        for name, value in total(list(outcomes.values())).items()
    ]
    wrong = [f"seed {number}: {one}" for number, one in outcomes.items() if one.mixed or one.uncounted]
    return rows, wrong
