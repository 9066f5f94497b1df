"""Tags of a run as one line that a person can edit: `lr=0.0003, note=first try`."""

import json
from collections.abc import Mapping

from ..storage import Json

#: What JSON values begin with that may hold a comma.
_OPENING = ('"', "[", "{")


class BadTags(ValueError):
    """A line that does not spell tags."""


def spell_tags(tags: Mapping[str, Json]) -> str:
    """The line of the tags; what is no plain text is spelled as JSON."""
    return ", ".join(f"{key}={_spelled(value)}" for key, value in tags.items())


def _spelled(value: Json) -> str:
    if isinstance(value, str) and value == value.strip() and value[:1] not in _OPENING and "," not in value:
        return value if _read(value) == value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def read_tags(line: str) -> dict[str, Json]:
    """The tags that the line spells: numbers, `true`, `null`, lists and quoted text as JSON, all else as text.

    Raises:
        BadTags: A part of the line has no key.
    """
    tags: dict[str, Json] = {}
    for part in _parts(line):
        key, sign, value = part.partition("=")
        if not key.strip() or not sign:
            raise BadTags(f"the tag {part.strip()!r} must read key=value; separate several by commas")
        tags[key.strip()] = _read(value.strip())
    return tags


def _parts(line: str) -> list[str]:
    """The line split at its commas; one inside of a JSON value parts nothing."""
    parts: list[str] = []
    for piece in line.split(","):
        if parts and _is_open(parts[-1]):
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return [part for part in parts if part.strip()]


def _is_open(part: str) -> bool:
    value = part.partition("=")[2].strip()
    return value[:1] in _OPENING and _read(value) == value


def _read(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError:
        return text
    return found
