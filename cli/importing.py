"""`mindscope import PATH` takes runs of other tools into a store."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import DEFAULT_STORE, JsonOption, StoreOption
from .output import print_json

_Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="tensorboard, msprobe, csv or parquet; found out by itself."),
]
_Name = Annotated[str | None, typer.Option("--name", help="What the run is called; as its files say by default.")]


def import_(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or folder of another tool, or of an export.")],
    form: _Format = None,
    name: _Name = None,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Take runs of another tool into a store, which is made if need be."""
    from ..probe.exchange import import_runs
    from ..storage import open_store

    with open_store(store) as opened:
        found = import_runs(opened, Path(path), form=form, name=name)
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
