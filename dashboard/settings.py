"""The settings of the dashboard's server."""

import ipaddress
import secrets
from dataclasses import dataclass
from typing import Final

_SHORTEST_TOKEN: Final = 16


class SettingsError(ValueError):
    """A setting of the dashboard that cannot be used."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The address of the dashboard and its access control.

    Args:
        port: 0 takes a free one.
        token: The token of visitors; None requires none and is only accepted on a loopback address.
        is_open: Whether visitors without the token may read, but not change; only accepted on a loopback address.
        is_read_only: Whether all changes are refused, even with the token.
        refresh_s: Seconds between two polls of a run that is being written.
        threads: Requests served at the same time.
    """

    host: str = "127.0.0.1"
    port: int = 8050
    token: str | None = None
    is_open: bool = False
    is_read_only: bool = False
    refresh_s: float = 1.0
    threads: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"dashboard port must be 0 to 65535, got {self.port}")
        if self.refresh_s <= 0:
            raise SettingsError(f"dashboard refresh_s must be above 0, got {self.refresh_s}")
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise SettingsError(
                f"dashboard token must have at least {_SHORTEST_TOKEN} characters, got {len(self.token)}; "
                f"omit it to get one generated"
            )
        if self.is_open and not is_loopback(self.host):
            raise SettingsError(
                f"dashboard on {self.host!r} can be reached from other machines; is_open is only for 127.0.0.1"
            )
        if self.token is None and not is_loopback(self.host):
            raise SettingsError(
                f"dashboard on {self.host!r} can be reached from other machines and needs a token, got none; "
                f"pass token=new_token() or listen on 127.0.0.1"
            )


def settings_for(host: str, port: int, token: str | None, *, is_read_only: bool = False) -> Settings:
    """Return the settings of a dashboard at that address with defaults for the rest.

    A given token is required of everybody. Otherwise one is generated: other machines need it to read, this machine
    only to change something.
    """
    is_open = token is None and is_loopback(host)
    made = None if is_open and is_read_only else new_token()
    return Settings(host=host, port=port, token=token or made, is_open=is_open, is_read_only=is_read_only)


def new_token() -> str:
    """Generate a token of 256 random bits that is safe in a URL."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
