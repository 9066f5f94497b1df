"""`mindscope delete`, `prune`, `backup`, `restore` and `merge`: runs are removed, and copied from folder to folder."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import STORE_UNREADABLE, WrongUse
from .output import print_json
from .store_options import (
    DEFAULT_STORE,
    JsonOption,
    RunArgument,
    SameStoreOption,
    StoreArgument,
    StoreOption,
    open_existing,
    require_existing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..storage.upkeep import Copied

_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of the copy, itself a store.")]


def delete(run: RunArgument, yes: _Yes = False, store: StoreOption = DEFAULT_STORE) -> int:
    """Remove a run and everything of it but checkpoints; one that is being written is refused."""
    with open_existing(store) as opened:
        found = opened.find_run(run)
        _confirm(f"remove run {found.id} ({found.name}, {found.last_step + 1} steps)?", yes=yes)
        opened.delete_run(found.id)
    print(f"{found.id} removed")
    return 0


def prune(
    keep: Annotated[str, typer.Option("--keep", metavar="30d", help="Remove runs that ended longer ago.")] = "",
    max_size: Annotated[
        str, typer.Option("--max-size", metavar="10GB", help="Then the oldest, until the rest is no larger.")
    ] = "",
    yes: _Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    store: StoreArgument = DEFAULT_STORE,
    same_store: SameStoreOption = "",
    as_document: JsonOption = False,
) -> int:
    """Remove old runs. Runs that are being written, and those with the tag `keep`, stay."""
    from ..storage.upkeep import plan_pruning

    if not (keep or max_size):
        raise WrongUse("name what may stay: --keep 30d, --max-size 10GB, or both")
    seconds, size = _seconds(keep), _bytes(max_size)
    with open_existing(same_store or store) as opened:
        planned = plan_pruning(opened, now=time.time(), keep_s=seconds, most_bytes=size)
        if as_document:
            rows = [{"run": one.run.id, "bytes": one.size_bytes, "reason": one.reason} for one in planned]
            print_json({"removed": not dry_run, "runs": rows})
        else:
            for one in planned:
                print(f"{one.run.id}  {one.size_bytes / 1e6:.1f} MB  {one.reason}")
            print(f"{len(planned)} runs, {sum(one.size_bytes for one in planned) / 1e6:.1f} MB")
        if planned and not dry_run:
            _confirm(f"remove {len(planned)} runs?", yes=yes)
            for one in planned:
                opened.delete_run(one.run.id)
    return 0


def backup(folder: _Folder, store: StoreOption = DEFAULT_STORE, as_document: JsonOption = False) -> int:
    """Copy a store to a folder, also while it is written; repeated, only what has changed.

    Exit code 3 means that files could not be read: they are named, and everything else is copied.
    """
    return _copy(store, folder, as_document=as_document)


def restore(folder: _Folder, store: StoreOption = DEFAULT_STORE, as_document: JsonOption = False) -> int:
    """Copy what a backup has and the store has not, or has less of, back into it."""
    return _copy(folder, store, as_document=as_document)


def merge(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to copy from, which stays as it is.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The store to copy to.")],
    as_document: JsonOption = False,
) -> int:
    """Copy the runs of one store into another."""
    return _copy(source, target, as_document=as_document)


def _copy(source: str, target: str, *, as_document: bool) -> int:
    from ..storage.upkeep import CopyIncomplete, copy_runs

    require_existing(source)
    failed: dict[str, str] = {}
    try:
        found = copy_runs(source, target)
    except CopyIncomplete as error:
        found, failed = error.copied, error.failed
    if as_document:
        print_json({"from": source, "to": target, "runs": found, "failed": failed})
    else:
        _print_copied(found, failed)
    return STORE_UNREADABLE if failed else 0


def _print_copied(found: "Mapping[str, Copied]", failed: "Mapping[str, str]") -> None:
    words: dict[Copied, str] = {
        "copied": "copied",
        "newer": "copied, since there was less of it",
        "there": "there already",
        "begun": "just begun; the next copy will have it",
        "older": "left alone, since there is more of it",
    }
    for run, became in found.items():
        print(f"{run}  {words[became]}")
    for name, why in failed.items():
        print(f"{name}  NOT COPIED: {why}")
    if failed:
        lost = "1 file" if len(failed) == 1 else f"{len(failed)} files"
        advice = "mindscope verify --repair mends what can be mended"
        print(f"mindscope: {lost} could not be copied, everything else was; {advice}", file=sys.stderr)


def _confirm(question: str, *, yes: bool) -> None:
    """Ask unless told not to.

    Raises:
        WrongUse: Nobody can be asked, or the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise WrongUse(f"{question} nobody can be asked here: add --yes")
    if not typer.confirm(question, err=True):
        raise WrongUse("nothing was removed")


def _seconds(text: str) -> float | None:
    if not text:
        return None
    from ..storage.age import seconds_of

    try:
        return seconds_of(text)
    except ValueError as error:
        raise WrongUse(f"--keep {error}") from None


def _bytes(text: str) -> int | None:
    if not text:
        return None
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        return int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError as error:
        raise WrongUse(f"--max-size expects a size such as 10GB or 500MB, got {text!r}") from error
