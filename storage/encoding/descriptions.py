"""What is described once a run, as bytes and back: the structure of the model and the layouts of the streams."""

import json
from dataclasses import asdict
from typing import Any

from ..records import Layout
from ..run import ModuleInfo, OptimizerInfo, ParameterInfo, Structure
from .compression import compress, decompress
from .text import to_json


def structure_bytes(structure: Structure) -> bytes:
    """A structure, compressed; `read_structure` gives it back."""
    return compress(to_json(asdict(structure)).encode())


def read_structure(data: bytes | None) -> Structure:
    """The structure from its bytes; an empty one from None."""
    if data is None:
        return Structure()
    raw = json.loads(decompress(data))
    return Structure(
        modules=tuple(_module(one) for one in raw["modules"]),
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


def _module(raw: dict[str, Any]) -> ModuleInfo:  # Any: values of parsed JSON
    return ModuleInfo(**{**raw, "inputs": tuple(raw["inputs"]), "direct": tuple(raw.get("direct", ()))})


def _parameter(raw: dict[str, Any]) -> ParameterInfo:  # Any: values of parsed JSON
    group = raw["group"]
    return ParameterInfo(
        **{
            **raw,
            "shape": tuple(raw["shape"]),
            "group": tuple(group) if group is not None else None,
            "more_groups": tuple(tuple(one) for one in raw.get("more_groups", ())),
        }
    )
