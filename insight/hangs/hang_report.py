"""What is known of a hang: who waits for what, who is missing, what those do, and who is the culprit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ...storage import Json
from ...storage.transfers import is_send, transfer_of

__all__ = ["HangReport", "MissingRank", "WaitingRank", "call_words", "group_words", "report_of", "several"]

#: `hang`: people must be told; `slow`: the missing ranks still work; `failed`: a collective has raised an error.
HangState = Literal["hang", "slow", "failed", "none"]


@dataclass(frozen=True, slots=True)
class WaitingRank:
    """A rank that waits in a collective.

    Args:
        group: As people know it.
        number: Of the call, in its group.
        waited_s: For how long.
    """

    rank: int
    operation: str
    group: str
    number: int
    sizes: tuple[tuple[int, ...], ...]
    dtype: str
    file: str
    line: int
    waited_s: float


@dataclass(frozen=True, slots=True)
class MissingRank:
    """A rank that others wait for.

    Args:
        kind: What it does, in one word: an activity, or how its call differs.
        words: The same as a sentence without its subject.
        is_busy: Whether it works: it may come yet.
    """

    rank: int
    kind: str
    words: str
    file: str = ""
    line: int = 0
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class HangReport:
    """The state of a training as far as its ranks wait for each other.

    Args:
        words: All of it in a sentence or two.
        kind: Of the first culprit; empty without one.
        culprits: The ranks to look at first.
        step: In which the ranks wait.
        waited_s: The longest wait.
        advice: What to do.
        stacks: The innermost lines of each rank's main thread.
    """

    state: HangState = "none"
    words: str = "no rank waits in a collective"
    kind: str = ""
    culprits: tuple[int, ...] = ()
    step: int = 0
    waited_s: float = 0.0
    waiting: tuple[WaitingRank, ...] = ()
    missing: tuple[MissingRank, ...] = ()
    advice: str = ""
    stacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def reporter(self) -> int:
        """The rank that reports it: the first that waits and is not itself to blame; -1 where none waits."""
        ranks = [one.rank for one in self.waiting]
        return min((rank for rank in ranks if rank not in self.culprits), default=min(ranks, default=-1))

    def data(self) -> dict[str, Json]:
        """Return the report as JSON."""
        return {
            "state": self.state,
            "words": self.words,
            "kind": self.kind,
            "culprits": list(self.culprits),
            "step": self.step,
            "waited_s": round(self.waited_s, 1),
            "waiting": [_document(one) for one in self.waiting],
            "missing": [_document(one) for one in self.missing],
            "advice": self.advice,
            "stacks": {str(rank): list(lines) for rank, lines in self.stacks.items()},
        }


def _document(one: WaitingRank | MissingRank) -> dict[str, Json]:
    fields: dict[str, Any] = {name: getattr(one, name) for name in one.__slots__}  # Any: unlike values, as JSON knows
    if "sizes" in fields:
        fields["sizes"] = [list(shape) for shape in fields["sizes"]]
    return fields


def report_of(data: Mapping[str, Any]) -> HangReport:
    """Return the report that was stored as JSON."""
    waiting = [
        WaitingRank(**{**one, "sizes": tuple(map(tuple, one.get("sizes", ())))}) for one in data.get("waiting", ())
    ]
    return HangReport(
        **{
            **{name: value for name, value in data.items() if name in HangReport.__slots__},
            "culprits": tuple(data.get("culprits", ())),
            "waiting": tuple(waiting),
            "missing": tuple(MissingRank(**one) for one in data.get("missing", ())),
            "stacks": {int(rank): tuple(lines) for rank, lines in data.get("stacks", {}).items()},
        }
    )


#: Ranks of a group, or ranges of them, that are listed (our choice: half a line).
_LISTED: Final = 6


def group_words(name: str, ranks: Sequence[int] = ()) -> str:
    """Return a group as people know it: `world`, `tp (ranks 0-3)`, `the group of ranks 0 and 1`.

    Args:
        name: As the ring of collectives keeps it: with a number behind `#`, as several groups may have one name.
        ranks: Its members.
    """
    base = name.partition("#")[0]
    if not ranks or base == "world" or ":" in base:
        return base
    listed = several(ranks)
    if len(_ranges(sorted(ranks))) > _LISTED:
        listed = f"{len(ranks)} ranks, {min(ranks)} to {max(ranks)}"
    return f"the group of {listed}" if base.startswith("ranks-") else f"{base} ({listed})"


def call_words(operation: str, group: str) -> str:
    """Return a call as people know it: `all_reduce of world`, `recv from rank 0 (tag 7)`.

    Args:
        group: As people know it; of a send or receive, as the ring of collectives keeps it.
    """
    transfer = transfer_of(group)
    if transfer is None:
        return f"{operation} of {group}"
    base = group_words(transfer.group)
    of_group = "" if base == "world" or base.startswith("ranks-") else f" of {base}"
    return f"{operation} {transfer.peer_words(sends=is_send(operation))}{of_group}"


def several(ranks: Sequence[int]) -> str:
    """Return ranks as people name them: `rank 1`, `ranks 0, 2 and 3`, `ranks 0-62`."""
    names = _ranges(sorted(ranks))
    if len(ranks) == 1:
        return f"rank {names[0]}"
    return f"ranks {names[0]}" if len(names) == 1 else f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _ranges(ranks: Sequence[int]) -> list[str]:
    """Return the ranks with three or more in a row joined."""
    found: list[list[int]] = []
    for rank in ranks:
        if found and found[-1][-1] == rank - 1:
            found[-1].append(rank)
        else:
            found.append([rank])
    return [
        name for run in found for name in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    ]


_ORDER_ADVICE: Final = (
    "make every rank call the same collectives in the same order: look at branches that depend on the rank, on local "
    "data or on a local exception around the named lines"
)
#: What to do, by kind of the first culprit.
ADVICE: Final[Mapping[str, str]] = {
    "shape": "give this collective tensors of one shape on every rank: pad them, or exchange their sizes before",
    "dtype": "give this collective tensors of one dtype on every rank: look at casts and autocast around the line",
    "argument": "give this collective the same reduction and root on every rank",
    "dead": "look into the log of this rank and of its machine (dmesg names what the out-of-memory killer ended); "
    "start the job again from its last checkpoint",
    "stopped": "continue the process with kill -CONT, or end its debugger",
    "exception": "mend the error of this rank; end the whole job when one rank fails (torchrun does)",
    "finished": "give every rank the same number of steps: look at the lengths of their shares of the data, at "
    "drop_last, and at early stops that are decided locally; join() covers uneven inputs",
    "paging": "look at the memory of this rank's machine, and at files that it reads through memory maps",
    "silent": "look at this rank's machine, and at native code that holds Python's interpreter",
    "data_loader": "look at this rank's data loader: a worker that is stuck or dead, a slow or hung file system; "
    "DataLoader(timeout=...) makes it raise",
    "lock": "look at which thread holds this lock; a lock that a fork has copied while it was held is never released",
    "sleep": "look at why this rank sleeps here while the others go on",
    "checkpoint": "look at the file system that the checkpoint goes to; let the others not wait meanwhile, or raise "
    "the timeout of the process group",
    "compilation": "wait, or compile before the training; raise the timeout of the process group",
    "user_code": "look at what this rank does at the named line, which the others have passed",
    "peer": "send this to the rank that receives it: look at how the number of the peer is computed around the line",
    "tag": "give both ends of this send and receive one tag",
    "deadlock": "let each send meet a receive: of two ranks, one sends first and the other receives first, or both use "
    "isend and irecv; let all ranks use their process groups in the same order",
    "backend": "all ranks are in the same call: look at the network, at its firewall, and at the backend's own log "
    "(NCCL_DEBUG=INFO)",
    **dict.fromkeys(("ended", "skipped", "extra", "reordered", "mismatch", "order"), _ORDER_ADVICE),
}


def stack_lines(frames: Sequence[tuple[str, int, str]], most: int = 6) -> tuple[str, ...]:
    """Return the innermost frames as lines: `train.py:12 in step`."""
    return tuple(f"{Path(file).name}:{line} in {function}" for file, line, function in frames[:most])
