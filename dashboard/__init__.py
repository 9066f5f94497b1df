"""The dashboard: Dash pages over a store, closed to other machines by default."""

import typing

from .server import Server, serve, start_in_thread
from .settings import Settings, SettingsError, new_token

if typing.TYPE_CHECKING:
    from .app import create_app

__all__ = ["Server", "Settings", "SettingsError", "create_app", "new_token", "serve", "start_in_thread"]


def __getattr__(name: str) -> object:
    """Import `create_app` on first access: it brings Dash and all pages, which the server does not wait for."""
    if name != "create_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .app import create_app  # noqa: PLC0415

    return create_app
