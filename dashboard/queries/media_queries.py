"""Images and sounds that a run has logged: by name, at each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...storage import Event, Run, Store
from ...storage.attachments import MEDIA
from .reader import Reader

#: Events of a rank that are read, and ranks; both our choice, a page shows no more.
_MOST_EVENTS: Final = 50_000
_MOST_RANKS: Final = 16


@dataclass(frozen=True, slots=True)
class MediaFile:
    """One image or sound.

    Args:
        media_type: `image/png`, `audio/wav`, or that of an imported file.
        caption: The user's words; empty without.
        note: What could not be kept as it was; empty without.
        width: In pixels; 0 where it is not known.
        height: Likewise.
    """

    digest: str
    rank: int
    media_type: str
    caption: str = ""
    note: str = ""
    width: int = 0
    height: int = 0


@dataclass(frozen=True, slots=True)
class MediaSeries:
    """What was logged under one name by one rank.

    Args:
        steps: Ascending; each has one or more files.
    """

    name: str
    rank: int
    steps: tuple[tuple[int, tuple[MediaFile, ...]], ...]

    def at(self, step: int) -> tuple[int, tuple[MediaFile, ...]] | None:
        """Return the newest step up to this one with its files; None before the first."""
        return next((entry for entry in reversed(self.steps) if entry[0] <= step), None)


def media_of(reader: Reader, run: Run) -> tuple[MediaSeries, ...]:
    """Return everything that was logged, by name and rank."""

    def read(store: Store) -> tuple[MediaSeries, ...]:
        found: list[MediaSeries] = []
        for rank in run.ranks[:_MOST_RANKS]:
            found += _series(rank, store.events(run.id, rank=rank, kind=MEDIA, limit=_MOST_EVENTS))
        return tuple(sorted(found, key=lambda series: (series.name, series.rank)))

    return reader.cached(run.id, "media", read)


def _series(rank: int, events: Sequence[Event]) -> list[MediaSeries]:
    by_name: dict[str, dict[int, list[MediaFile]]] = {}
    for event in events:
        steps = by_name.setdefault(str(event.data.get("name", "")), {})
        steps.setdefault(event.step, []).append(_file(rank, event))
    return [
        MediaSeries(name, rank, tuple((step, tuple(files)) for step, files in sorted(steps.items())))
        for name, steps in by_name.items()
    ]


def _file(rank: int, event: Event) -> MediaFile:
    digest, kind, caption, note = (str(event.data.get(key, "")) for key in ("digest", "type", "caption", "note"))
    width, height = (_whole(event.data.get(key)) for key in ("width", "height"))
    return MediaFile(digest, rank, kind, caption, note, width, height)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
