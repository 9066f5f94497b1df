"""The rare nouns (structure, findings, outcomes, events, histograms, layouts) as stored text or bytes, and back.

JSON here writes NaN and infinities by Python's own words and keeps every digit of a float64.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from .codec import compress, decompress
from .records import Event, Finding, Histogram, Json, Layout, Outcome
from .run import ModuleInfo, OptimizerInfo, ParameterInfo, Structure


def to_json(value: object) -> str:
    """The value as JSON; NumPy scalars and arrays become numbers and lists, what JSON has no word for becomes text."""
    return json.dumps(value, default=_plain, separators=(",", ":"))


def from_json(text: str) -> dict[str, Json]:
    """The object that `to_json` was given."""
    loaded: dict[str, Json] = json.loads(text)
    return loaded


def structure_bytes(structure: Structure) -> bytes:
    """A structure, compressed; `read_structure` gives it back."""
    return compress(to_json(asdict(structure)).encode())


def read_structure(data: bytes | None) -> Structure:
    """The structure from its bytes; an empty one from None."""
    if data is None:
        return Structure()
    raw = json.loads(decompress(data))
    return Structure(
        modules=tuple(ModuleInfo(**{**one, "inputs": tuple(one["inputs"])}) for one in raw["modules"]),
        parameters=tuple(_parameter(one) for one in raw["parameters"]),
        optimizers=tuple(OptimizerInfo(one["kind"], tuple(one["groups"])) for one in raw["optimizers"]),
        subjects=tuple(raw["subjects"]),
    )


def layout_bytes(layout: Layout) -> bytes:
    """A layout, compressed; `read_layout` gives it back."""
    return compress(to_json(asdict(layout)).encode())


def read_layout(data: bytes) -> Layout:
    """The layout from its bytes."""
    raw = json.loads(decompress(data))
    return Layout(
        raw["subject"],
        tuple(raw["sites"]),
        tuple(raw["statistics"]),
        tuple(raw["dtypes"]),
        tuple(raw["calls"]),
        raw["part"],
    )


def finding_text(finding: Finding) -> str:
    """A finding as JSON; `read_finding` gives it back."""
    return to_json(asdict(finding))


def read_finding(text: str) -> Finding:
    """The finding from its JSON."""
    raw = json.loads(text)
    raw["order"] = tuple(raw["order"])
    return Finding(**raw)


def outcome_text(outcome: Outcome) -> str:
    """An outcome as JSON; `read_outcome` gives it back."""
    return to_json(asdict(outcome))


def read_outcome(text: str) -> Outcome:
    """The outcome from its JSON."""
    return Outcome(**json.loads(text))


def event_text(event: Event) -> str:
    """An event as JSON; `read_event` gives it back."""
    return to_json(asdict(event))


def read_event(text: str) -> Event:
    """The event from its JSON."""
    return Event(**json.loads(text))


def histogram_bytes(histogram: Histogram) -> bytes:
    """Edges and counts, compressed; `read_histogram` gives them back."""
    edges = np.ascontiguousarray(histogram.edges, dtype="<f8")
    return compress(edges.tobytes() + np.ascontiguousarray(histogram.counts, dtype="<i8").tobytes())


def read_histogram(site: str, subject: str, call: int, data: bytes) -> Histogram:
    """The histogram from its bytes."""
    raw = decompress(data)
    middle = (len(raw) // 8 + 1) // 2 * 8
    edges, counts = np.frombuffer(raw[:middle], dtype="<f8"), np.frombuffer(raw[middle:], dtype="<i8")
    return Histogram(site, subject, edges, counts, call)


def _parameter(raw: dict[str, Any]) -> ParameterInfo:  # Any: values of parsed JSON
    group = raw["group"]
    return ParameterInfo(**{**raw, "shape": tuple(raw["shape"]), "group": tuple(group) if group is not None else None})


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)
