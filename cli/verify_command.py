"""`mindscope verify` reads everything in a store, lists what is damaged or missing, and mends it on request."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import STORE_UNREADABLE, WrongUse
from .output import print_json
from .store_options import DEFAULT_STORE, JsonOption, StoreOption, is_path, open_existing, require_existing

if TYPE_CHECKING:
    from ..storage.repair import Repair

_Run = Annotated[str, typer.Argument(metavar="[RUN]", help="An id, a prefix, a name or 'latest'; all runs by default.")]


_Repair = Annotated[
    bool, typer.Option("--repair", help="Write damaged runs anew; the files as they were stay, as NAME.damaged.")
]
_Backup = Annotated[
    str, typer.Option("--from", metavar="DIR", help="Take what is damaged or missing from this backup; with --repair.")
]


def verify(
    run: _Run = "",
    repair: _Repair = False,
    backup: _Backup = "",
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Read everything that runs hold, against its checksums and counts.

    Exit code 3 means that something is damaged or missing; the rest can still be read by every command. A store that
    is being written may be verified. `--repair` writes a damaged run anew from what can be read and from the backup;
    what neither has stays told.
    """
    if backup and not repair:
        raise WrongUse("--from names the backup that --repair takes from; add --repair")
    repaired = _repair(store, run, backup) if repair else []
    with open_existing(store) as opened:
        known = [opened.find_run(run)] if run else list(opened.runs(limit=1_000_000))
        found = {one.id: opened.verify(one.id) for one in known}
        unread = tuple(opened.damage)
    if not run:
        found |= _unreadable(store, found)
    if as_document:
        document: dict[str, object] = {"store": store, "runs": {name: list(lines) for name, lines in found.items()}}
        print_json(document | ({"repaired": [asdict(one) for one in repaired]} if repair else {}))
    else:
        for one in repaired:
            for line in one.done or ("nothing of it could be mended",):
                print(f"{one.file}: {line}")
        for name, lines in found.items():
            print(f"{name}  {f'{len(lines)} damaged' if lines else 'intact'}")
            for line in lines:
                print(f"  {line}")
    return STORE_UNREADABLE if unread or any(found.values()) else 0


def _unreadable(store: str, known: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return what is wrong with run files of which not even the run can be read."""
    from ..storage.database.folder_backend import run_files, run_of_file
    from ..storage.repair import damage_of

    folder = Path(store).expanduser()
    paths = run_files(folder) if is_path(store) and folder.is_dir() else []
    lost = {run_of_file(path): damage_of(path) for path in paths if run_of_file(path) not in known}
    return {name: lines for name, lines in lost.items() if lines}


def _repair(store: str, run: str, backup: str) -> list["Repair"]:
    from ..storage.repair import repair_runs

    require_existing(store)
    if backup:
        require_existing(backup)
    names = None
    if run:
        with open_existing(store) as opened:
            names = [opened.find_run(run).id]
    return repair_runs(store, runs=names, backup=backup or None)
