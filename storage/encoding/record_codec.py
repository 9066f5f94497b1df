"""Findings, outcomes, events, histograms, structures and layouts as stored JSON or bytes, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..records import Event, Finding, Histogram, Json, Layout, Outcome
from ..run_info import ModuleInfo, OptimizerInfo, ParameterInfo, Structure
from .codec import compress, decompress


def to_json(value: object) -> str:
    """Return the value as JSON; NumPy scalars and arrays become numbers and lists, other types become text."""
    return json.dumps(value, default=_plain, separators=(",", ":"))


def from_json(text: str) -> dict[str, Json]:
    """Return the object that `to_json` was given.

    Raises:
        ValueError: The text is damaged: no JSON, or no object.
    """
    loaded = json.loads(text)
    if not isinstance(loaded, dict):
        raise ValueError(f"a JSON object was expected, and {text[:40]!r} came")  # noqa: TRY004 - as JSON's own errors
    return loaded


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


def structure_bytes(structure: Structure) -> bytes:
    """Return a structure, compressed; `read_structure` gives it back."""
    return compress(to_json(asdict(structure)).encode())


def read_structure(data: bytes | None) -> Structure:
    """Return the structure from its bytes; an empty one from None."""
    if data is None:
        return Structure()
    raw = json.loads(decompress(data))
    return Structure(
        modules=tuple(_module(module) for module in raw["modules"]),
        parameters=tuple(_parameter(parameter) for parameter in raw["parameters"]),
        optimizers=tuple(_optimizer(optimizer) for optimizer in raw["optimizers"]),
        subjects=tuple(raw["subjects"]),
    )


def layout_bytes(layout: Layout) -> bytes:
    """Return a layout, compressed; `read_layout` gives it back."""
    return compress(to_json(asdict(layout)).encode())


def read_layout(data: bytes) -> Layout:
    """Return the layout from its bytes."""
    raw = json.loads(decompress(data))
    return Layout(
        raw["subject"],
        tuple(raw["sites"]),
        tuple(raw["statistics"]),
        tuple(raw["dtypes"]),
        tuple(raw["calls"]),
        raw["part"],
    )


def _module(raw: dict[str, Any]) -> ModuleInfo:  # Any: values of parsed JSON
    return ModuleInfo(**{**raw, "inputs": tuple(raw["inputs"]), "direct": tuple(raw.get("direct", ()))})


def _parameter(raw: dict[str, Any]) -> ParameterInfo:  # Any: values of parsed JSON
    group = raw["group"]
    return ParameterInfo(
        **{
            **raw,
            "shape": tuple(raw["shape"]),
            "group": tuple(group) if group is not None else None,
            "more_groups": tuple(tuple(indices) for indices in raw.get("more_groups", ())),
        }
    )


def _optimizer(raw: dict[str, Any]) -> OptimizerInfo:  # Any: values of parsed JSON
    return OptimizerInfo(raw["kind"], tuple(raw["groups"]))


def finding_text(finding: Finding) -> str:
    """Return a finding as JSON; `read_finding` gives it back."""
    return to_json(asdict(finding))


def read_finding(text: str) -> Finding:
    """Return the finding from its JSON."""
    return finding_of(json.loads(text))


def finding_of(fields: Mapping[str, Any]) -> Finding:  # Any: parsed JSON
    """Return the finding of these fields."""
    return Finding(**{**fields, "order": tuple(fields["order"])})


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as JSON; `read_outcome` gives it back."""
    return to_json(asdict(outcome))


def read_outcome(text: str) -> Outcome:
    """Return the outcome from its JSON."""
    return Outcome(**json.loads(text))


def event_text(event: Event) -> str:
    """Return an event as JSON; `read_event` gives it back."""
    return to_json(event.fields())


def read_event(text: str) -> Event:
    """Return the event from its JSON."""
    return Event(**json.loads(text))


def histogram_bytes(histogram: Histogram) -> bytes:
    """Return edges and counts, compressed; `read_histogram` gives them back."""
    edges = np.ascontiguousarray(histogram.edges, dtype="<f8")
    return compress(edges.tobytes() + np.ascontiguousarray(histogram.counts, dtype="<i8").tobytes())


def read_histogram(site: str, subject: str, call: int, data: bytes) -> Histogram:
    """Return the histogram from its bytes."""
    raw = decompress(data)
    middle = (len(raw) // 8 + 1) // 2 * 8
    edges, counts = np.frombuffer(raw[:middle], dtype="<f8"), np.frombuffer(raw[middle:], dtype="<i8")
    return Histogram(site, subject, edges, counts, call)
