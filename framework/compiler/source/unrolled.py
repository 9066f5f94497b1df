"""Loops over what is known: each round in turn; a traced `break` leaves one path, the others go on."""

import ast
from collections.abc import Callable, Iterable
from typing import Any

from .flow import BREAK, CONTINUE, NEXT, End, Flow, Split
from .frame import Frame, is_settled
from .meeting import converge, join

__all__ = ["run_rounds"]


def run_rounds(
    frame: Frame, rounds: Iterable[Callable[[], None]], body: list[ast.stmt], finish: Callable[[], Flow]
) -> Flow:
    """How a loop ends whose rounds are known.

    Args:
        frame: That it stands in.
        rounds: What each round begins with (it binds the variables).
        body: What it does.
        finish: What follows the last round, unless a `break` came first.
    """
    capture = frame.interpreter.capture
    entered: list[tuple[Split, list[Any], list[End], Any]] = []
    with capture.attempt():
        flow: Flow = NEXT
        for begin in rounds:
            begin()
            with frame.in_loop():
                flow = _round(frame.block(body))
            if isinstance(flow, Split):
                flow = _enter(frame, flow, entered)
            if flow is not NEXT:
                flow = left(flow)
                break
        else:
            flow = finish()
        return _unwind(frame, flow, entered) if entered else flow


def _round(flow: Flow) -> Flow:
    """The end of a round as the loop sees it: `continue` is the next round."""
    if isinstance(flow, Split):
        ends = [End(NEXT, end.graph, end.changes) if end.flow is CONTINUE else end for end in flow.ends]
        return Split(flow.start, flow.jumps, ends, flow.dead)
    return NEXT if flow is CONTINUE else flow


def _enter(frame: Frame, split: Split, entered: list[Any]) -> Flow:
    """NEXT where the rounds go on, on the path of the ends that do; else the split."""
    capture = frame.interpreter.capture
    if is_settled(split):
        converge(capture, split)
        return NEXT
    going = [end for end in split.ends if end.flow is NEXT]
    if not going:
        return split
    end, jumps = join(capture, going, split.start.graph, split.dead)
    others = [leave(other) for other in split.ends if other.flow is not NEXT]
    entered.append((split, jumps, others, capture.graph))
    capture.resume(end)
    return NEXT


def _unwind(frame: Frame, flow: Flow, entered: list[Any]) -> Flow:
    """The split of the whole loop, after the last round."""
    capture = frame.interpreter.capture
    for split, jumps, others, outer in reversed(entered):
        ends, more = capture.settle(flow, outer)
        flow = Split(split.start, [*split.jumps, *jumps, *more], [*others, *ends], split.dead)
    return flow


def leave(end: End) -> End:
    """The end of a loop as the code after it sees it: `break` goes on with the next line."""
    return End(NEXT, end.graph, end.changes) if end.flow is BREAK else end


def left(flow: Flow) -> Flow:
    """How a round that is the last one ends, as the code after the loop sees it."""
    if isinstance(flow, Split):
        return Split(flow.start, flow.jumps, [leave(end) for end in flow.ends], flow.dead)
    return NEXT if flow is BREAK else flow
