"""`mindscope dashboard [STORE]` serves the pages over a store until it is stopped."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from .failures import Interrupted
from .output import remark
from .store_options import DEFAULT_STORE, SameStoreOption, StoreArgument, open_existing

_Host = Annotated[
    str, typer.Option("--host", help="The address to listen on; one that other machines can reach requires a token.")
]
_Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="MINDSCOPE_TOKEN",
        help="The token that browsers need when other machines can reach the address.",
    ),
]

_Export = Annotated[
    str,
    typer.Option("--export", metavar="DIR", help="Write a run as one HTML file into this folder, and serve nothing."),
]


def dashboard(
    store: StoreArgument = DEFAULT_STORE,
    same_store: SameStoreOption = "",
    host: _Host = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8050,
    token: _Token = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    export: _Export = "",
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="The run that --export writes.")] = "latest",
) -> int:
    """Serve the dashboard of a store, or write one run as an HTML file that needs no server."""
    store = same_store or store
    if export:
        return _export(store, run, Path(export))
    open_existing(store).close()
    gc.disable()  # imports create many objects and no garbage; collecting took an eighth of the time
    from ..dashboard import serve

    try:
        serve(store, host=host, port=port, token=token or None, is_read_only=read_only, ready=_collect_garbage)
    except KeyboardInterrupt:
        raise Interrupted("dashboard stopped") from None
    remark("mindscope: dashboard stopped")
    return 0


def _collect_garbage() -> None:
    """Collect garbage again, but only among objects created from now on."""
    gc.freeze()
    gc.enable()


def _export(url: str, reference: str, folder: Path) -> int:
    with open_existing(url) as store:
        from ..dashboard.export import export_report

        print(export_report(store, store.find_run(reference), folder))
    return 0
