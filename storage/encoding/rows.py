"""The rare nouns (findings, outcomes, events, histograms) as stored text or bytes, and back."""

import json
from dataclasses import asdict

import numpy as np

from ..records import Event, Finding, Histogram, Outcome
from .compression import compress, decompress
from .text import to_json


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
