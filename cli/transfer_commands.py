"""`mindscope export`, `import` and `migrate`: runs to other tools, from other tools, and from older stores."""

import sys
from pathlib import Path
from typing import Annotated

import typer

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

_Format = Annotated[str, typer.Option("--format", metavar="NAME", help="tensorboard, csv or parquet.")]


def export(
    run: RunArgument,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder for the files; created if missing.")],
    form: _Format = "tensorboard",
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Write a run in the format of another tool."""
    from ..probe.exchange import export as export_run

    with open_existing(store) as opened:
        written = [str(path) for path in export_run(opened, run, form, Path(folder))]
    if as_document:
        print_json({"run": run, "format": form, "files": written})
    else:
        print("\n".join(written))
    return 0


_ImportFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="tensorboard, msprobe, csv or parquet; detected by default."),
]
_Name = Annotated[str | None, typer.Option("--name", help="Name of the run; by default as in its files.")]


def import_(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or folder of another tool, or of an export.")],
    form: _ImportFormat = None,
    name: _Name = None,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Import runs of another tool into a store, which is created if missing, and store what the rules find in them."""
    from ..insight import diagnose
    from ..probe.exchange import import_runs
    from ..storage import open_store

    with open_store(store) as opened:
        found = import_runs(opened, Path(path), form=form, name=name)
        for run, _ in found:
            diagnose(opened, run.id, write=True)
    for _, notes in found:
        for note in notes:
            print(f"mindscope: {note}", file=sys.stderr)
    if as_document:
        documents = [
            {
                "run": run.id,
                "name": run.name,
                "ranks": list(run.ranks),
                "last_step": run.last_step,
                "notes": list(notes),
            }
            for run, notes in found
        ]
        print_json({"store": store, "runs": documents})
    else:
        for run, _ in found:
            print(f"{run.id}  {run.name}  steps to {run.last_step}, ranks {', '.join(map(str, run.ranks))}")
    return 0


def migrate(
    store: StoreArgument = DEFAULT_STORE, same_store: SameStoreOption = "", as_document: JsonOption = False
) -> int:
    """Upgrade a store to the schema of this version."""
    store = same_store or store
    require_existing(store)
    from ..storage import migrate as migrate_store
    from ..storage.errors import without_passwords

    done = migrate_store(store)
    if as_document:
        print_json({"store": without_passwords(store), "migrated": done})
    else:
        print("\n".join(done) if done else f"{without_passwords(store)} is up to date")
    return 0
