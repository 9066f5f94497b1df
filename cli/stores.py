"""Opening a store for reading, without making one where there is none."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage import Store


def open_existing(url: str) -> "Store":
    """The store at `url`, which must be there already.

    Raises:
        StoreUnavailable: Nothing is there; reading commands never create a store.
    """
    from ..storage import open_store

    require_existing(url)
    return open_store(url)


def require_existing(url: str) -> None:
    """Nothing, if there can be a store at `url`.

    Raises:
        StoreUnavailable: It is a path and nothing is there.
    """
    from ..storage import StoreUnavailable

    if is_path(url) and not Path(url).exists():
        raise StoreUnavailable(
            f"there is no store at {url!r}; name one with --store or MINDSCOPE_STORE, or make one with 'mindscope demo'"
        )


def is_path(url: str) -> bool:
    """True when the store is a folder or a file of this machine."""
    return "://" not in url and not url.startswith("memory:")
