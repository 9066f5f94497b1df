"""`mindscope hang RUN` says which rank hangs, waiting for what, and what the missing ranks do instead."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from .failures import WrongUse
from .native_stacks import NativeStacks, native_stacks
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
#: Ranks whose stacks are printed.
_MOST_STACKS: Final = 16
#: Characters of a native frame that are printed; those of C++ templates have thousands.
_LONGEST: Final = 160


def hang(
    what: _What = None,
    are_files: _Files = False,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Say which ranks wait in a collective, who is missing, and what those do instead: while it hangs, and afterwards.

    Stacks have native frames where py-spy is installed and the ranks run on this machine; it stops a rank that hangs
    for a moment. Exit code 1 means a hang.
    """
    report, words = _of_files(what or []) if are_files else _of_run(what or ["latest"], store)
    native = native_stacks(report, words) if report.state in ("hang", "slow") else NativeStacks({})
    if as_document:
        stacks = {str(rank): text for rank, text in native.stacks.items()}
        print_json({**report.data(), "native_stacks": stacks, "native_notes": native.notes})
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


def _print(report: "HangReport", native: NativeStacks) -> None:
    title = {"hang": "HANG", "failed": "A COLLECTIVE FAILED", "slow": "slow, no hang", "none": "no hang"}[report.state]
    print(f"{title}: {report.words}")
    if report.advice and report.state != "none":
        print(f"  to do: {report.advice}")
    silent = [rank for rank in native.stacks if rank not in report.stacks]  # py-spy alone sees their stacks
    for rank in [*list(report.stacks)[:_MOST_STACKS], *silent]:
        is_known = rank in report.culprits or any(one.rank == rank for one in report.missing)
        lines = " < ".join(report.stacks.get(rank, ())) or "its own word has no stack"
        print(f"  rank {rank}{' (missing)' if is_known else ''}: {lines}")
        for line in native.stacks.get(rank, "").splitlines():
            print(f"    {line[:_LONGEST]}")
    for note in native.notes:
        print(f"  {note}")
