"""JSON as the store writes it: NaN and infinities by Python's own words, every digit of a float64."""

import json
from collections.abc import Mapping

import numpy as np

from ..records import Json


def to_json(value: object) -> str:
    """The value as JSON; NumPy scalars and arrays become numbers and lists, what JSON has no word for becomes text."""
    return json.dumps(value, default=_plain, separators=(",", ":"))


def from_json(text: str) -> dict[str, Json]:
    """The object that `to_json` was given."""
    loaded: dict[str, Json] = json.loads(text)
    return loaded


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)
