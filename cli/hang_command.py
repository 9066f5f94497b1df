"""`mindscope hang RUN` says which rank hangs, waiting for what, and what the missing ranks do instead."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .failures import WrongUse
from .output import print_json
from .store_options import DEFAULT_STORE, JsonOption, StoreOption, open_existing

if TYPE_CHECKING:
    from ..insight.hangs.hang_report import HangReport
    from ..storage.last_words import LastWord

_What = Annotated[
    list[str] | None, typer.Argument(metavar="[RUN | FILES]", help="A run, 'latest' by default; or files with --from.")
]
_Files = Annotated[
    bool,
    typer.Option("--from", help="Read files: Flight Recorder dumps, or output of NCCL's RAS or Inspector."),
]
#: Seconds that py-spy may take for one process.
_SPY_S: Final = 20.0
#: Ranks whose stacks are printed.
_MOST_STACKS: Final = 16


def hang(
    what: _What = None,
    are_files: _Files = False,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Say which ranks wait in a collective, who is missing, and what those do instead: while it hangs, and afterwards.

    Stacks have native frames where py-spy is installed and the ranks run on this machine. Exit code 1 means a hang.
    """
    report, words = _of_files(what or []) if are_files else _of_run(what or ["latest"], store)
    native = _native_stacks(words) if report.state in ("hang", "slow") else {}
    if as_document:
        print_json({**report.data(), "native_stacks": {str(rank): text for rank, text in native.items()}})
    else:
        _print(report, native)
    return 1 if report.state in ("hang", "failed") else 0


def _of_files(names: list[str]) -> "tuple[HangReport, Mapping[int, LastWord]]":
    from ..insight.hangs.foreign_sources import hang_of_files

    if not names:
        raise WrongUse("--from expects files: dumps of the Flight Recorder, or output of NCCL's RAS or Inspector")
    return hang_of_files([Path(name) for name in names]), {}


def _of_run(names: list[str], store: str) -> "tuple[HangReport, Mapping[int, LastWord]]":
    from ..insight.hangs.observation import hang_of_run

    if len(names) > 1:
        raise WrongUse(f"expected one run, got {' '.join(names)}; files are read with --from")
    with open_existing(store) as opened:
        return hang_of_run(opened, names[0])


def _print(report: "HangReport", native: Mapping[int, str]) -> None:
    title = {"hang": "HANG", "failed": "A COLLECTIVE FAILED", "slow": "slow, no hang", "none": "no hang"}[report.state]
    print(f"{title}: {report.words}")
    if report.advice and report.state != "none":
        print(f"  to do: {report.advice}")
    for rank, lines in list(report.stacks.items())[:_MOST_STACKS]:
        is_known = rank in report.culprits or any(one.rank == rank for one in report.missing)
        print(f"  rank {rank}{' (missing)' if is_known else ''}: {' < '.join(lines)}")
        for line in native.get(rank, "").splitlines():
            print(f"    {line}")


def _native_stacks(words: "Mapping[int, LastWord]") -> dict[int, str]:
    """Return what py-spy prints of the ranks that run on this machine; nothing without py-spy."""
    from ..storage.encoding.record_codec import from_json
    from ..storage.process import process_state

    spy = shutil.which("py-spy")
    found = {}
    for rank, word in list(words.items())[:_MOST_STACKS] if spy else ():
        writer: Mapping[str, Any] = from_json(word.writer) if word.writer else {}  # Any: JSON
        if process_state(word.writer).is_alive and spy is not None:
            command = [spy, "dump", "--native", "--nonblocking", "--pid", str(writer["pid"])]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_SPY_S, check=False)
            except (OSError, subprocess.TimeoutExpired):
                continue
            found[rank] = done.stdout.strip()
    return found
