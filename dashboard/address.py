"""The grammar of the dashboard's URLs: a short address that restores what is seen."""

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, urlencode

_LONGEST: Final = 2000
_TEXTS: Final = ("run", "metric", "site", "view", "scalar", "scale")
_VIEWS: Final = ("deviation", "raw")
_SCALES: Final = ("linear", "log")


class BadAddress(ValueError):
    """A URL whose query does not follow the grammar."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a reader is and what is looked at there.

    Args:
        page: First part of the path, empty for the overview.
        run: Id or any other reference to a run.
        site: None when no site is chosen; the root's site is the empty string.
        view: How the heat map shows its metric: `deviation` or `raw`.
        scalar: Which scalar the curve shows.
        scale: The curve's value axis: `linear` or `log`.
    """

    page: str = ""
    run: str = ""
    metric: str = ""
    site: str | None = None
    step: int | None = None
    view: str = "deviation"
    scalar: str = "loss"
    scale: str = "linear"

    @property
    def search(self) -> str:
        """The query with its question mark; empty when everything is as usual."""
        usual = Address()
        said = {
            name: value
            for name in (*_TEXTS, "step")
            if (value := getattr(self, name)) is not None and value != getattr(usual, name)
        }
        return "?" + urlencode(said, safe="/:") if said else ""

    @property
    def href(self) -> str:
        """The whole address, from the first slash on."""
        return f"/{self.page}{self.search}"

    def to(self, page: str) -> "Address":
        """Another page about the same run."""
        return Address(page=page, run=self.run)

    def at(self, metric: str, site: str | None = None, step: int | None = None) -> "Address":
        """The same page, looking at another place."""
        return replace(self, metric=metric, site=site, step=step)


def parse(pathname: str | None, search: str | None) -> Address:
    """The address that a URL spells; unknown keys are ignored.

    Raises:
        BadAddress: A value is none of the words that its key knows, or the query is too long.
    """
    page = (pathname or "/").strip("/")
    query = (search or "").removeprefix("?")
    if len(query) > _LONGEST:
        raise BadAddress(f"the query has {len(query)} characters, expected at most {_LONGEST}; start from a run's page")
    said = dict(parse_qsl(query, keep_blank_values=True))
    usual = Address()
    address = Address(
        page=page,
        run=said.get("run", usual.run),
        metric=said.get("metric", usual.metric),
        site=said.get("site"),
        step=_step(said.get("step")),
        view=said.get("view", usual.view),
        scalar=said.get("scalar", usual.scalar),
        scale=said.get("scale", usual.scale),
    )
    _check("view", address.view, _VIEWS)
    _check("scale", address.scale, _SCALES)
    return address


def _step(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadAddress(f"step={text[:40]!r} in the address is not a step; expected a whole number such as step=120")
    return int(text)


def _check(key: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise BadAddress(f"{key}={word[:40]!r} in the address is not known; expected {' or '.join(known)}")
