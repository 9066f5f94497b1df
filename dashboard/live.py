"""What is new since the browser last asked: a few points to append, or the word that a picture must be drawn again."""

from dataclasses import asdict, dataclass
from typing import Final

from .data import Reader
from .figures import Points, points_of

#: Points appended to a curve before it is drawn anew with fewer, chosen ones.
_APPENDED: Final = 1500
#: Looks between two redraws of the heat map and the detail, while the run writes.
_BEAT: Final = 3
_TAIL: Final = 500


@dataclass(frozen=True, slots=True)
class Cursor:
    """What the browser has seen of a run.

    Args:
        version: The run's version then.
        step: The newest step of the curve; -1 before the first.
        findings: How many findings were marked.
        appended: Points added to the curve since it was drawn.
        looks: Looks that found something new.
    """

    version: str = ""
    step: int = -1
    findings: int = 0
    appended: int = 0
    looks: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What one look found.

    Args:
        tail: Points to append to the curve, None when it is to be left or drawn anew.
        redraw: Whether the curve must be drawn anew.
        beat: Whether the slower pictures are due as well.
    """

    cursor: Cursor
    tail: Points | None
    redraw: bool
    beat: bool


def cursor_now(reader: Reader, run: str, step: int) -> Cursor:
    """The cursor of a page that is being laid out."""
    return Cursor(version=reader.version(run), step=step, findings=len(reader.findings(run)))


def look(reader: Reader, run: str, scalar: str, seen: Cursor, *, log: bool, is_over: bool) -> News | None:
    """What has happened since `seen`, None for nothing."""
    version = reader.version(run)
    if version == seen.version:
        return None
    findings = len(reader.findings(run))
    new = reader.scalar(run, scalar, first=seen.step + 1, limit=_TAIL)
    points = points_of(new.steps, new.values, log=log)
    step = max((seen.step, *points.x[-1:]))
    appended = seen.appended + len(points.x)
    is_redrawn = bool(points.mark_x) or findings != seen.findings or appended > _APPENDED or new.total > len(points.x)
    looks = seen.looks + 1
    cursor = Cursor(
        version=version,
        step=step,
        findings=findings,
        appended=0 if is_redrawn else appended,
        looks=looks,
    )
    due = is_redrawn or is_over or looks % _BEAT == 1
    return News(cursor, None if is_redrawn or not points.x else points, is_redrawn, due)


def to_json(cursor: Cursor) -> dict[str, int | str]:
    """The cursor as it travels through the browser."""
    return asdict(cursor)


def from_json(data: object) -> Cursor:
    """The cursor that came back; a fresh one for anything that is none."""
    if not isinstance(data, dict) or set(data) != set(Cursor.__slots__):
        return Cursor()
    text, numbers = data.pop("version"), data
    if not isinstance(text, str) or not all(isinstance(value, int) for value in numbers.values()):
        return Cursor()
    return Cursor(version=text, **numbers)
