"""How the dashboard is served."""

import ipaddress
import secrets
from dataclasses import dataclass
from typing import Final

_SHORTEST_TOKEN: Final = 16


class SettingsError(ValueError):
    """A setting of the dashboard that cannot be used."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the dashboard listens and what it asks of its visitors.

    Args:
        port: 0 takes a free one.
        token: What a visitor must know; None asks nothing and is only accepted on a loopback address.
        refresh_s: Seconds between two looks at a run that is being written.
        threads: Requests served at the same time.
    """

    host: str = "127.0.0.1"
    port: int = 8050
    token: str | None = None
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
                f"leave it out to have one made"
            )
        if self.token is None and not is_loopback(self.host):
            raise SettingsError(
                f"dashboard on {self.host!r} can be reached from other machines and needs a token, got none; "
                f"pass token=new_token() or listen on 127.0.0.1"
            )


def new_token() -> str:
    """A token that nobody guesses: 256 random bits, safe in a URL."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """True when only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
