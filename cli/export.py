"""`mindscope export RUN DIR` writes a run in the format of another tool."""

from pathlib import Path
from typing import Annotated

import typer

from .options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption
from .output import print_json
from .stores import open_existing

_Format = Annotated[str, typer.Option("--format", metavar="NAME", help="tensorboard, csv or parquet.")]


def export(
    run: RunArgument,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Where the files go; made if need be.")],
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
