"""The grammar of the dashboard's URLs: a short address that restores what is seen."""

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
class Key:
    """One key that the addresses of a page may have beside run, metric, site and step.

    Args:
        usual: What is meant when the key is not said.
        words: All that it may say; empty lets it say anything.
        pattern: A regular expression that all it says must match; empty lets it say anything.
        example: One thing that matches it.
    """

    name: str
    usual: str = ""
    words: tuple[str, ...] = ()
    pattern: str = ""
    example: str = ""

    def of(self, address: "Address") -> str:
        """What the address says under this key."""
        return address.options.get(self.name, self.usual)

    def check(self, word: str) -> None:
        """Refuses what the key cannot say.

        Raises:
            BadAddress: The word is none of those that it knows, or does not match.
        """
        said = f"{self.name}={word[:40]!r} in the address"
        if self.words and word not in self.words:
            raise BadAddress(f"{said} is not known; expected {' or '.join(self.words)}")
        if self.pattern and word and not re.fullmatch(self.pattern, word, re.ASCII):
            raise BadAddress(f"{said} cannot be read; expected something like {self.name}={self.example}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a reader is and what is looked at there.

    Args:
        page: First part of the path, empty for the overview.
        run: Id or any other reference to a run.
        site: None when no site is chosen; the root's site is the empty string.
        options: What the page's own keys say, as far as it is not the usual.
    """

    page: str = ""
    run: str = ""
    metric: str = ""
    site: str | None = None
    step: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def search(self) -> str:
        """The query with its question mark; empty when everything is as usual."""
        said = {name: value for name in _TEXTS if (value := getattr(self, name))}
        if self.site == "":
            said["site"] = ""
        if self.step is not None:
            said["step"] = self.step
        said.update(self.options)
        return "?" + urlencode(said, safe="/:,*") if said else ""

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

    def having(self, **options: str) -> "Address":
        """The same place with some of the page's own keys saying something else."""
        return replace(self, options={**self.options, **options})


def parse(pathname: str | None, search: str | None, keys: Sequence[Key] = ()) -> Address:
    """The address that a URL spells; keys that are neither everybody's nor the page's own are ignored.

    Raises:
        BadAddress: A value is none of the words that its key knows, or the query is too long.
    """
    query = (search or "").removeprefix("?")
    if len(query) > _LONGEST:
        raise BadAddress(f"the query has {len(query)} characters, expected at most {_LONGEST}; start from a run's page")
    said = dict(parse_qsl(query, keep_blank_values=True))
    for key in keys:
        key.check(said.get(key.name, key.usual))
    return Address(
        page=(pathname or "/").strip("/"),
        run=said.get("run", ""),
        metric=said.get("metric", ""),
        site=said.get("site"),
        step=_step(said.get("step")),
        options={key.name: said[key.name] for key in keys if said.get(key.name, key.usual) != key.usual},
    )


def _step(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadAddress(f"step={text[:40]!r} in the address is not a step; expected a whole number such as step=120")
    return int(text)
