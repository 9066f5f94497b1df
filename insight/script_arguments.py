"""Names the arguments of a script, so that two calls can be compared."""

import re
from collections.abc import Mapping
from typing import Final

from ..storage import Json

__all__ = ["named_arguments"]

_NUMBER: Final = re.compile(r"-?[0-9.]")


def named_arguments(host: Mapping[str, Json]) -> dict[str, Json]:
    """Return the arguments by name: `--lr 3` and `lr=3` are `lr`, a switch is true, other words count from 1.

    What is given several times is a list. A word behind a name that has no value yet is taken for its value.

    Args:
        host: Of a run; its `arguments` are the words.
    """
    found: dict[str, list[Json]] = {}
    words = host.get("arguments")
    name, position = "", 0
    for word in map(str, words) if isinstance(words, list) else ():
        is_name = word.startswith("-") and not _NUMBER.match(word) and word.strip("-") != ""
        if is_name or "=" in word:
            left, equals, value = word.partition("=")
            key = left.lstrip("-")
            found.setdefault(key, []).append(value if equals else True)
            name = "" if equals else key
        elif name:
            found[name][-1] = word
            name = ""
        else:
            position += 1
            found[f"{position}"] = [word]
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}
