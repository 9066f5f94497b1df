"""The grammar of the dashboard's URLs: an address restores the view."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import parse_qsl, urlencode

_LONGEST: Final = 2000
_TEXTS: Final = ("run", "metric", "site")


class BadAddress(ValueError):
    """A URL whose query does not follow the grammar."""


@dataclass(frozen=True, slots=True)
class QueryKey:
    """A key of a page's addresses besides run, metric, site and step.

    Args:
        usual: The default value.
        words: The allowed values; empty allows any.
        pattern: A regular expression for the value; empty allows any.
        example: A value that matches the pattern.
    """

    name: str
    usual: str = ""
    words: tuple[str, ...] = ()
    pattern: str = ""
    example: str = ""

    def of(self, address: "PageAddress") -> str:
        """Return the value of this key in the address, or its default."""
        return address.options.get(self.name, self.usual)

    def check(self, word: str) -> None:
        """Refuse a value that the key does not allow.

        Raises:
            BadAddress: The value is not allowed.
        """
        values = f"{self.name}={word[:40]!r} in the address"
        if self.words and word not in self.words:
            raise BadAddress(f"{values} is not known; expected {' or '.join(self.words)}")
        if self.pattern and word and not re.fullmatch(self.pattern, word, re.ASCII):
            raise BadAddress(f"{values} cannot be read; expected something like {self.name}={self.example}")


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address of a page and of what it shows.

    Args:
        page: First part of the path, empty for the overview.
        run: Id or any other reference to a run.
        site: None when no site is chosen; the root's site is the empty string.
        options: Values of the page's own keys that differ from the default.
    """

    page: str = ""
    run: str = ""
    metric: str = ""
    site: str | None = None
    step: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def search(self) -> str:
        """The query with its question mark; empty when all values are defaults."""
        values = {name: value for name in _TEXTS if (value := getattr(self, name))}
        if self.site == "":
            values["site"] = ""
        if self.step is not None:
            values["step"] = self.step
        values.update(self.options)
        return "?" + urlencode(values, safe="/:,*") if values else ""

    @property
    def href(self) -> str:
        """The whole address, from the first slash on."""
        return f"/{self.page}{self.search}"

    def to(self, page: str) -> "PageAddress":
        """Return the address of another page about the same run."""
        return PageAddress(page=page, run=self.run)

    def at(self, metric: str, site: str | None = None, step: int | None = None) -> "PageAddress":
        """Return the same page with another metric, site and step."""
        return replace(self, metric=metric, site=site, step=step)

    def having(self, **options: str) -> "PageAddress":
        """Return the same address with some of the page's own keys changed."""
        return replace(self, options={**self.options, **options})


def parse(pathname: str | None, search: str | None, keys: Sequence[QueryKey] = ()) -> PageAddress:
    """Parse the address in a URL; ignore keys that belong neither to every page nor to this one.

    Raises:
        BadAddress: A value is not allowed, or the query is too long.
    """
    query = (search or "").removeprefix("?")
    if len(query) > _LONGEST:
        raise BadAddress(f"the query has {len(query)} characters, expected at most {_LONGEST}; start from a run's page")
    values = dict(parse_qsl(query, keep_blank_values=True))
    for key in keys:
        key.check(values.get(key.name, key.usual))
    return PageAddress(
        page=(pathname or "/").strip("/"),
        run=values.get("run", ""),
        metric=values.get("metric", ""),
        site=values.get("site"),
        step=_step(values.get("step")),
        options={key.name: values[key.name] for key in keys if values.get(key.name, key.usual) != key.usual},
    )


def _step(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadAddress(f"step={text[:40]!r} in the address is not a step; expected a whole number such as step=120")
    return int(text)


Span = tuple[int, int]

#: The range of steps that the figures of a page show.
SPAN = QueryKey("steps", pattern=r"\d{1,18}-\d{1,18}", example="120-480")


def span_of(text: str | None) -> Span | None:
    """Return the first and last step of a range, None for all steps or for text that is no range."""
    first, _, last = (text or "").partition("-")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        return None
    return min(int(first), int(last)), max(int(first), int(last))
