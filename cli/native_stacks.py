"""What py-spy sees of the ranks of a hang on this machine: stacks with native frames, or why there are none.

For native frames, py-spy stops the process for a moment by ptrace. It may do so only where the training hangs and the
process neither is stopped nor waits for a disk; else it reads Python frames alone, without stopping anything.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..insight.hangs.hang_report import HangReport
    from ..storage.last_words import LastWord

#: Seconds that py-spy may take for one process; one with torch takes half a second.
_SPY_S: Final = 20.0
#: Ranks that are looked at, culprits first.
_MOST: Final = 16
#: States in /proc in which a process cannot be stopped by ptrace, or would stay stopped.
_NOT_STOPPED: Final = frozenset("TtD")
_REFUSED: Final = ("permission denied", "operation not permitted", "eperm")
_REMEDY: Final = (
    "py-spy may not look into the process, ptrace is refused; run `mindscope hang` as the training's user or by sudo, "
    "start a container with --cap-add=SYS_PTRACE, or set kernel.yama.ptrace_scope to 0"
)


@dataclass(frozen=True, slots=True)
class NativeStacks:
    """What py-spy told.

    Args:
        stacks: By rank, the text of its threads.
        notes: Why frames are missing, a line each.
    """

    stacks: Mapping[int, str]
    notes: tuple[str, ...] = ()


def native_stacks(report: "HangReport", words: "Mapping[int, LastWord]") -> NativeStacks:
    """Return what py-spy tells of ranks that run on this machine, culprits first; nothing without py-spy."""
    from ..insight.hangs.hang_report import several
    from ..storage.encoding.record_codec import from_json
    from ..storage.process import process_state

    spy = _program()
    stacks: dict[int, str] = {}
    reasons: dict[str, list[int]] = {}
    first = [*report.culprits, *(missing.rank for missing in report.missing)]
    ranks = [rank for rank in dict.fromkeys([*first, *words]) if rank in words]
    for rank in ranks[:_MOST] if spy else ():
        state = process_state(words[rank].writer)
        if spy is None or not state.is_alive:
            continue
        writer: Mapping[str, Any] = from_json(words[rank].writer)  # Any: JSON
        may_stop = report.state == "hang" and state.letter not in _NOT_STOPPED
        stack, reason = _look(spy, str(writer["pid"]), may_stop=may_stop)
        if stack:
            stacks[rank] = stack
        if reason:
            reasons.setdefault(reason, []).append(rank)
    notes = tuple(f"no native frames of {several(sorted(ranks))}: {reason}" for reason, ranks in reasons.items())
    return NativeStacks(stacks, notes)


def _program() -> str | None:
    """Return the path of py-spy: on PATH, or beside this Python, whose environment may not be activated."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))


def _look(spy: str, pid: str, *, may_stop: bool) -> tuple[str, str]:
    """Return the stacks of a process, and why native frames are missing though they were asked for."""
    if not may_stop:
        return _dump(spy, pid, "--nonblocking")[0], ""
    stack, reason = _dump(spy, pid, "--native")
    return (stack, "") if stack else (_dump(spy, pid, "--nonblocking")[0], reason)


def _dump(spy: str, pid: str, option: str) -> tuple[str, str]:
    """Return what py-spy prints of the threads of a process, or why it prints nothing."""
    command = [spy, "dump", option, "--pid", pid]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_SPY_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"py-spy has not answered in {_SPY_S:.0f} s"
    except OSError as error:
        return "", f"py-spy cannot be started: {error.strerror or error}"
    if done.returncode == 0 and (threads := _of_the_training(done.stdout)):
        return threads, ""
    if any(word in done.stderr.lower() for word in _REFUSED):
        return "", _REMEDY
    return "", f"py-spy failed: {_reason(done.stderr) or f'it ended with {done.returncode}'}"


def _reason(errors: str) -> str:
    """Return the first line of an error and its last cause, without the stack of py-spy itself."""
    told = errors.partition("Stack backtrace")[0].strip()
    causes = re.findall(r"^\s+\d+: (.+)$", told, re.MULTILINE)
    return ": ".join([*told.splitlines()[:1], *causes[-1:]]).removeprefix("Error: ")


def _of_the_training(dump: str) -> str:
    """Return the threads of a dump, without those of mindscope, and without the head that names the process."""
    threads = re.split(r"^(?=Thread )", dump, flags=re.MULTILINE)[1:]
    return "".join(thread for thread in threads if '"mindscope-' not in thread.partition("\n")[0]).strip()
