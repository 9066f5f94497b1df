"""The dashboard: Dash pages over a store, closed to other machines by default."""

from .app import create_app
from .server import Server, serve, start_in_thread
from .settings import Settings, SettingsError, new_token

__all__ = ["Server", "Settings", "SettingsError", "create_app", "new_token", "serve", "start_in_thread"]
