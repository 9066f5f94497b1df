"""Entries of PyTorch's Flight Recorder as collectives: of a dump's pickle, once it is loaded, and of its JSON.

The format is that of `torch/csrc/distributed/c10d/FlightRecorder.hpp`: `entries` of collectives with numbers by group,
`pg_config` with the ranks of each group. Gloo's entries stay `scheduled` when they have ended; NCCL's go through
`scheduled`, `started` and `completed`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .last_words import CollectiveCall, CollectiveState

__all__ = ["recorded_calls"]

_STATES: Final[Mapping[str, CollectiveState]] = {
    "scheduled": "enqueued",
    "started": "waiting",
    "completed": "completed",
}
#: Names of operations as our wrappers say them.
_OPERATIONS: Final = {
    "_all_gather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single",
    "ALLREDUCE": "all_reduce",
    "BROADCAST": "broadcast",
}
_WORLD: Final = "default_pg"


def recorded_calls(dump: Mapping[str, Any]) -> tuple[list[CollectiveCall], dict[str, tuple[int, ...]]]:
    """Return the collectives of a dump, oldest first, and the ranks of its groups.

    Transfers between two ranks are left out: the recorder does not name the other end reliably.

    Args:
        dump: As `_dump_fr_trace` pickles it, or its JSON; Any: it is of another program.

    Raises:
        ValueError: It is no such dump.
    """
    entries = dump.get("entries")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ValueError("expected a dump of PyTorch's Flight Recorder, which has `entries`")  # noqa: TRY004  as documented
    try:
        calls = [_call(entry) for entry in entries if not entry.get("is_p2p")]
        names = {str(entry["process_group"][0]): _group(entry["process_group"]) for entry in entries}
        groups = {}
        for number, config in dict(dump.get("pg_config") or {}).items():
            ranks = _ranks(config.get("ranks", []))
            name = str(config.get("name") or number)
            if ranks and (name in names or len(dump["pg_config"]) == 1):
                groups[names.get(name, next(iter(names.values()), "world"))] = ranks
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise ValueError(f"an entry of the Flight Recorder's dump cannot be read: {error!r}") from error
    return calls, groups


def _call(entry: Mapping[str, Any]) -> CollectiveCall:
    operation = str(entry["profiling_name"]).rpartition(":")[2]
    sizes = entry.get("input_sizes") or entry.get("output_sizes") or ()
    dtypes = entry.get("input_dtypes") or entry.get("output_dtypes") or ("",)
    file, line = _user_frame(entry.get("frames") or ())
    return CollectiveCall(
        number=int(entry["collective_seq_id"]),
        operation=_OPERATIONS.get(operation, operation),
        group=_group(entry["process_group"]),
        state=_STATES.get(str(entry.get("state")), "enqueued"),
        sizes=tuple(tuple(int(size) for size in shape) for shape in sizes),
        dtype=str(dtypes[0]),
        file=file,
        line=line,
        began_at=float(entry.get("time_created_ns") or 0) / 1e9,
        ended_at=float(entry.get("time_discovered_completed_ns") or 0) / 1e9,
    )


def _group(names: Sequence[Any]) -> str:
    """Return the name of a group: its description, unless it has none."""
    name, description = str(names[0]), str(names[1]) if len(names) > 1 else ""
    if description == _WORLD:
        return "world"
    return description if description not in ("", "undefined") else name


def _ranks(ranks: object) -> tuple[int, ...]:
    """Return ranks, which dumps hold as a list or as its text."""
    found = json.loads(ranks) if isinstance(ranks, str) else ranks
    return tuple(int(rank) for rank in found) if isinstance(found, Sequence) else ()


def _user_frame(frames: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """Return the innermost frame that is not torch's, else the innermost."""
    for frame in frames:
        file = str(frame.get("filename", ""))
        if "/torch/" not in file and not file.startswith("<"):
            return file, int(frame.get("line", 0))
    return (str(frames[0].get("filename", "")), int(frames[0].get("line", 0))) if frames else ("", 0)
