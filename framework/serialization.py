"""Checkpoints: named arrays in safetensors files, written whole or not at all, and loaded strictly.

A checkpoint is a mapping from names to arrays plus a few strings. A network's parameters stand under their sites; a
training state adds the optimizer's slots and everything else that a resumed run needs to go on bit for bit.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .errors import EngineError
from .nn.cell import Cell
from .tensor import Array, Parameter, Tensor
from .whole_file import write_whole

__all__ = ["CheckpointError", "load_checkpoint", "load_metadata", "load_param_into_net", "save_checkpoint"]

#: Under which a checkpoint keeps its strings, as JSON.
_METADATA = "mindscope"


class CheckpointError(EngineError, ValueError):
    """A checkpoint that cannot be read, or does not fit the network it is loaded into."""


def save_checkpoint(
    source: Cell | Mapping[str, Tensor | Array] | Iterable[Parameter],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Write the arrays to the file; if anything fails, the file keeps what it held before.

    Args:
        source: A cell (all its parameters), named parameters, or a mapping of names to tensors or arrays.
        path: By custom ending in `.safetensors`; its folder must exist.
        metadata: Anything JSON can say; `load_metadata` gives it back.

    Raises:
        CheckpointError: Two arrays of one name, or one of a dtype that safetensors does not know.
        OSError: The file cannot be written.
    """
    target = Path(path)
    arrays = {name: np.asarray(array, order="C") for name, array in _named_arrays(source).items()}
    try:
        content = save(arrays, {_METADATA: json.dumps(metadata or {})})
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"these arrays cannot be written to '{target}': {error}") from error
    write_whole(target, content)


def load_checkpoint(
    path: str | os.PathLike[str], net: Cell | None = None, *, strict: bool = True
) -> dict[str, Parameter]:
    """Return the parameters in a file, by name; with `net`, they are also loaded into it.

    Raises:
        CheckpointError: The file is no checkpoint, is cut short or damaged, or does not fit `net`.
        FileNotFoundError: There is no file.
    """
    parameters = {name: Parameter(array, name, False) for name, array in _read(Path(path))[0].items()}
    if net is not None:
        load_param_into_net(net, parameters, strict=strict)
    return parameters


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `save_checkpoint` was given as metadata; empty for files of others.

    Raises:
        CheckpointError: The file is no checkpoint, is cut short or damaged.
        FileNotFoundError: There is no file.
    """
    return _read(Path(path))[1]


def load_param_into_net(
    net: Cell, parameters: Mapping[str, Tensor | Array], *, strict: bool = True
) -> tuple[list[str], list[str]]:
    """Return names that the network has and the parameters lack, and the reverse; both empty when `strict`.

    Values are copied into the network's own arrays, converted to their dtype. If the call raises, nothing was changed.

    Args:
        net: Where to.
        parameters: By site.
        strict: Whether missing and extra names are errors. Wrong shapes always are.

    Raises:
        CheckpointError: Names or shapes do not agree; the message lists all of them.
    """
    own = net.parameters_dict()
    missing = [name for name in own if name not in parameters]
    extra = [name for name in parameters if name not in own]
    misshapen = [
        f"{name} (has {own[name].shape}, got {tuple(parameters[name].shape)})"
        for name in own
        if name in parameters and own[name].shape != tuple(parameters[name].shape)
    ]
    faults = [("of another shape", misshapen)]
    if strict:
        faults += [("missing", missing), ("extra", extra)]
    mismatches = [f"{len(names)} {what}: {', '.join(names)}" for what, names in faults if names]
    if mismatches:
        raise CheckpointError(
            f"these parameters do not fit {type(net).__name__}: {'; '.join(mismatches)}"
            + ("; pass strict=False to load those that do" if strict and not misshapen else "")
        )
    for name, parameter in own.items():
        if name in parameters:
            value = parameters[name]
            array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
            parameter.set_data(array.astype(parameter.dtype, copy=False))
    return missing, extra


def _named_arrays(source: Cell | Mapping[str, Tensor | Array] | Iterable[Parameter]) -> dict[str, Array]:
    if isinstance(source, Cell):
        source = source.parameters_dict()
    if isinstance(source, Mapping):
        return {name: x.numpy() if isinstance(x, Tensor) else np.asarray(x) for name, x in source.items()}
    arrays: dict[str, Array] = {}
    for parameter in source:
        if not parameter.name or parameter.name in arrays:
            raise CheckpointError(
                f"parameters need names of their own to be saved, got {parameter.name!r} twice or empty"
            )
        arrays[parameter.name] = parameter.numpy()
    return arrays


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint '{path}'")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (safe_open is no mapping)
            metadata = json.loads((file.metadata() or {}).get(_METADATA, "{}"))
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise CheckpointError(
            f"'{path}' cannot be read as a checkpoint ({error}); it is no safetensors file, or was cut short or damaged"
        ) from error
    if not isinstance(metadata, dict):
        raise CheckpointError(
            f"'{path}' must have metadata of names with values, got {type(metadata).__name__}; it was not written by "
            f"save_checkpoint, or damaged"
        )
    return arrays, metadata
