"""One run of one case under another tool, in a process of its own that is ended when it takes too long."""

import gc
import time
from collections.abc import Sequence
from typing import Any

from .cases import CASES, Case
from .outcome import Alarm, Outcome
from .peer_tools import PEERS, PeerWatcher
from .run import train_quietly
from .script import Script
from .together import server


def outcome_of(peer: str, name: str, seed: int, *, limit_s: float) -> Outcome:
    """What the tool says of this case at this seed."""
    ours, theirs = server().Pipe(duplex=False)
    process = server().Process(target=_run_and_send, args=(peer, name, seed, theirs))
    process.start()
    theirs.close()
    try:
        if ours.poll(limit_s):
            outcome: Outcome = ours.recv()
            return outcome
        return Outcome(name, seed, seconds=limit_s, error=f"ended after {limit_s:g} s")
    except EOFError:
        return Outcome(name, seed, error="its process ended without a word")
    finally:
        process.kill()
        process.join()


def _run_and_send(peer: str, name: str, seed: int, connection: Any) -> None:
    try:
        connection.send(_run(peer, name, seed))
    except Exception as error:  # noqa: BLE001  a tool that breaks must not end the others; it has found nothing
        connection.send(Outcome(name, seed, error=f"{type(error).__name__}: {error}"))


def _run(peer: str, name: str, seed: int) -> Outcome:
    script, truth = CASES[name].prepare(seed)
    watchers: list[PeerWatcher] = []

    def watch(under_way: Script) -> PeerWatcher:
        watchers.append(PEERS[peer](under_way))
        return watchers[0]

    began = time.process_time()
    error = train_quietly(script, watch)
    gc.collect()
    alarms = watchers[0].alarms() if watchers else ()
    return Outcome(
        case=name,
        seed=seed,
        sites=truth.sites,
        rank=truth.rank,
        onset=truth.onset,
        alarms=alarms,
        roots=_first_three(alarms, CASES[name]),
        seconds=time.process_time() - began,
        error=error,
    )


def _first_three(alarms: Sequence[Alarm], case: Case) -> tuple[Alarm, ...]:
    """One alarm of each of the first three kinds, read in the tool's favour."""
    kinds: dict[str, Alarm] = {}
    for alarm in alarms:
        known = kinds.setdefault(alarm.rule, alarm)
        if known.cause not in case.causes and alarm.cause in case.causes:
            kinds[alarm.rule] = alarm
    return tuple(kinds.values())[:3]
