"""`mindscope dashboard [STORE]` serves the pages over a store until it is stopped."""

from typing import Annotated

import typer

from .failures import Interrupted
from .options import DEFAULT_STORE, StoreArgument
from .output import remark
from .stores import open_existing

_Host = Annotated[str, typer.Option("--host", help="The address to listen on; one that others reach demands a token.")]
_Token = Annotated[
    str, typer.Option("--token", envvar="MINDSCOPE_TOKEN", help="What visitors bring when others reach the address.")
]


def dashboard(
    store: StoreArgument = DEFAULT_STORE,
    host: _Host = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8050,
    token: _Token = "",
) -> int:
    """Serve the dashboard over a store."""
    open_existing(store).close()
    from ..dashboard import serve

    try:
        serve(store, host=host, port=port, token=token or None)
    except KeyboardInterrupt:
        raise Interrupted("dashboard stopped") from None
    remark("mindscope: dashboard stopped")
    return 0
