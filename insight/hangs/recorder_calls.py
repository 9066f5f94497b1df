"""What PyTorch's Flight Recorder tells of a rank beside our wrappers: it also knows what DDP calls in C++.

The recorder has no lines; the wrappers have. A call of a wrapper is the entry that was made while it lasted. Entries
that belong to no wrapper are calls of torch itself.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ...storage.last_words import CollectiveCall, LastWord
from .order import BY_TORCH

__all__ = ["as_recorded", "entries", "waiting_call"]

#: Frames in which the framework itself calls collectives that no wrapper sees.
_FRAMEWORK: Final = ("torch/autograd/graph.py", "torch/nn/parallel/distributed.py", "torch/distributed/")
#: Clocks of a wrapper and of the recorder may differ by so many seconds (our choice).
_APART_S: Final = 1e-3


def waiting_call(word: LastWord) -> tuple[CollectiveCall | None, bool]:
    """Return the call that the rank is in, or that has failed in it, and whether only the native recorder knows it."""
    if word.open_call is not None:
        return word.open_call, False
    if word.phase == "failed":
        return word.failed_call, bool(word.native) and word.failed_call not in (None, *word.calls[-1:])
    main = word.main_thread
    if not word.native:
        return None, False
    if any(call.state == "completed" for call in word.native):  # the recorder knows what has ended, as NCCL's does
        return next((call for call in word.native if call.state != "completed"), None), True
    is_inside = main is None or (bool(main.frames) and any(part in main.frames[0][0] for part in _FRAMEWORK))
    return (word.native[-1], True) if is_inside and word.processor < 0.5 else (None, False)


def as_recorded(word: LastWord, call: CollectiveCall) -> CollectiveCall:
    """Return the entry of the native recorder for the call that the rank is in."""
    if not word.native or call in word.native:
        return call
    if call.state == "failed":
        last = word.native[-1]
        return replace(call, number=last.number) if last.operation == call.operation else call
    unfinished = [one for one in word.native if one.state != "completed"]
    knows_ends = len(unfinished) < len(word.native)
    entry = (unfinished[0] if knows_ends else word.native[-1]) if unfinished else word.native[-1]
    return replace(entry, file=call.file, line=call.line)


def entries(word: LastWord) -> tuple[CollectiveCall, ...]:
    """Return the recorder's entries with the lines of the wrappers; those of torch itself have the file `BY_TORCH`.

    Where the ring has forgotten its oldest calls, entries before those that it knows are left out.
    """
    of_wrappers = _matched(word)
    is_whole = sum(site.calls for site in word.sites) <= len(word.calls)
    first = min((call.began_at for call in word.calls), default=0.0)
    known = [call for call in word.native if is_whole or call.began_at >= first - _APART_S]
    return tuple(
        replace(call, file=made.file, line=made.line, step=made.step)
        if (made := of_wrappers.get((call.group, call.number)))
        else call
        if call.file
        else replace(call, file=BY_TORCH)
        for call in known
    )


def _matched(word: LastWord) -> Mapping[tuple[str, int], CollectiveCall]:
    """Return the wrapper's call of each entry that has one, by group and number."""
    found: dict[tuple[str, int], CollectiveCall] = {}
    free = list(word.native)
    for made in word.calls:
        end = made.ended_at or float("inf")
        within = [entry for entry in free if made.began_at - _APART_S <= entry.began_at <= end + _APART_S]
        entry = next((entry for entry in within if entry.operation == made.operation), within[0] if within else None)
        if entry is not None:
            free.remove(entry)
            found[entry.group, entry.number] = made
    return found
