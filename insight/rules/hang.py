"""Ranks that wait in a collective for others that do not come."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import as_number, number, ranks
from ..recording import Recording
from ..rule import BACKWARD, rule


def _hang(kind: str, words: str, culprits: tuple[int, ...] = (1,), state: str = "hang") -> Event:
    data: dict[str, Json] = {"state": state, "kind": kind, "words": words, "culprits": list(culprits), "step": 7}
    waiting: list[Json] = [{"rank": 0, "operation": "all_reduce", "waited_s": 6.0, "line": 33, "number": 41}]
    return Event("hang", 7, data=data | {"waited_s": 6.0, "waiting": waiting, "advice": "look at this rank"})


@dataclass(slots=True)
class _HangState:
    """The finding that was reported last, and is not settled."""

    last: Finding | None = None


@rule(
    "hang",
    needs=("event/hang", "event/hang_over"),
    phase=BACKWARD,
    memory=_HangState,
    is_optional=True,
    fires_on=(
        Recording(
            events=(_hang("sleep", "rank 1 sleeps at train.py:50. rank 0 waits in all_reduce of world"),), steps=8
        ),
        Recording(
            events=(_hang("shape", "rank 3 calls all_reduce at train.py:9 with 8, the others with 4", (3,)),), steps=8
        ),
        Recording(
            events=(_hang("dead", "rank 1 is gone in step 7 without a word: killed by SIGKILL", state="failed"),),
            steps=8,
        ),
        Recording(events=(_hang("backend", "ranks 0-3 wait in all_reduce of world; no rank is missing", ()),), steps=8),
    ),
    silent_on=(
        Recording(events=(Event("hang_over", 7, data={"step": 7}),), steps=8),
        # the missing rank works: it compiles, evaluates or writes a checkpoint
        Recording(events=(_hang("checkpoint", "rank 1 writes a checkpoint", state="slow"),), steps=8),
    ),
)
def check(context: StepContext, memory: _HangState) -> Iterator[Finding]:
    """Report ranks that wait in a collective while others do not come, and what those do instead.

    The rule fires when a rank waits longer than ten median steps, at least 5 s (30 s in the first steps, 2.5 s for a
    rank that is gone), while the ranks that it waits for neither use the processor nor move data: they are dead,
    stopped, asleep, in a lock, in another collective, or have called collectives in another order, shape or dtype.
    Ranks that work, as those that compile, evaluate or write a checkpoint, are waited for 300 s. `mindscope hang` shows
    every rank's stack. The finding is withdrawn when the training goes on.
    """
    for event in context.events("hang"):
        if event.data.get("state") in ("hang", "failed"):
            memory.last = _report(context, event)
            yield memory.last
    if memory.last is not None and any(True for _ in context.events("hang_over")):
        last, memory.last = memory.last, None
        yield context.finding(
            ROOT_SITE,
            "",
            last.evidence,
            severity="info",
            first_step=last.first_step,
            position=0,
            rank=last.rank,
            explanation=f"the training went on after this: {last.explanation}",
            advice=last.advice,
            confidence=0.1,
        )


def _report(context: StepContext, event: Event) -> Finding:
    culprits = ranks(event, "culprits")
    waiting = event.data.get("waiting")
    first = waiting[0] if isinstance(waiting, list) and waiting and isinstance(waiting[0], dict) else {}
    return context.finding(
        ROOT_SITE,
        "",
        {
            "waited_s": number(event, "waited_s"),
            "waiting_ranks": len(waiting) if isinstance(waiting, list) else 0,
            "number": as_number(first.get("number")),
            "line": as_number(first.get("line")),
        },
        first_step=event.step,
        position=0,
        rank=culprits[0] if culprits else None,
        explanation=str(event.data.get("words", "")),
        advice=f"{event.data.get('advice') or 'look at these ranks'}; `mindscope hang` shows their stacks",
        confidence=0.9,
    )
