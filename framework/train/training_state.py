"""Everything a run needs to go on bit for bit, in one checkpoint.

network/<site>            parameters and running statistics
optimizer/<slot>/<n>      state of the n-th parameter; optimizer/steps counts its updates
metadata                  options of the optimizer, loss scale, place in the data, place in the random keys
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data import Loader, LoaderState
from ..errors import EngineError
from ..nn.cell import Cell
from ..optim.loss_scaling import DynamicLossScaler
from ..optim.optimizer import Optimizer
from ..random import get_state, set_state
from ..serialization import CheckpointError, load_checkpoint, load_metadata, load_param_into_net, save_checkpoint
from ..tensor import Array


def save_training_state(
    path: str | os.PathLike[str],
    network: Cell,
    optimizer: Optimizer,
    *,
    scaler: DynamicLossScaler | None = None,
    loader: Loader | None = None,
) -> None:
    """Write the state between two steps to the file, which keeps what it held before if anything fails."""
    state = optimizer.state_dict()
    arrays: dict[str, Array] = {f"network/{site}": p.numpy() for site, p in network.parameters_and_names()}
    arrays["optimizer/steps"] = state["steps"]
    for slot, members in state["slots"].items():
        arrays.update({f"optimizer/{slot}/{number}": array for number, array in enumerate(members)})
    bits, taken = get_state()
    metadata = {
        "optimizer": {"kind": state["kind"], "step_count": state["step_count"], "groups": state["groups"]},
        "scaler": None if scaler is None else scaler.state_dict(),
        "loader": None if loader is None else [loader.state.epoch, loader.state.position],
        "random": [str(bits), taken],  # 128 bits are more than other readers of JSON can hold in a number
    }
    save_checkpoint(arrays, path, metadata=metadata)


def load_training_state(
    path: str | os.PathLike[str],
    network: Cell,
    optimizer: Optimizer,
    *,
    scaler: DynamicLossScaler | None = None,
    loader: Loader | None = None,
) -> None:
    """Read a saved state, so that the next step is the one that would have followed it.

    Raises:
        CheckpointError: The file is damaged, is no training state, or is one of another network, optimizer, or set of
        parts. FileNotFoundError: There is no file.
    """
    metadata = load_metadata(path)
    arrays = {name: p.numpy() for name, p in load_checkpoint(path).items()}
    _check_parts(path, metadata, scaler=scaler, loader=loader)
    before = optimizer.state_dict()
    try:
        optimizer.load_state_dict(_optimizer_state(metadata["optimizer"], arrays, optimizer))
        load_param_into_net(network, _below(arrays, "network/"))
    except (EngineError, ValueError) as error:
        optimizer.load_state_dict(before)
        raise CheckpointError(f"'{os.fspath(path)}' does not fit: {error}") from error
    if scaler is not None:
        scaler.load_state_dict(metadata["scaler"])
    if loader is not None:
        loader.state = LoaderState(*metadata["loader"])
    bits, taken = metadata["random"]
    set_state((int(bits), taken))


def _check_parts(path: str | os.PathLike[str], metadata: Mapping[str, object], **parts: object) -> None:
    if not {"optimizer", "random", "scaler", "loader"} <= set(metadata):
        raise CheckpointError(f"'{os.fspath(path)}' is no training state; load it with load_checkpoint()")
    for name, part in parts.items():
        if (part is None) != (metadata[name] is None):
            held = "holds none" if metadata[name] is None else "holds one"
            given = "none was given" if part is None else "one was given"
            raise CheckpointError(f"'{os.fspath(path)}' {held} for the {name}, but {given}; resume with the same parts")


def _optimizer_state(saved: Mapping[str, Any], arrays: Mapping[str, Array], optimizer: Optimizer) -> dict[str, Any]:
    slots = {}
    for slot in optimizer.slots():
        members = _below(arrays, f"optimizer/{slot}/")
        slots[slot] = [members[key] for key in sorted(members, key=int)]
    known = {f"optimizer/{slot}/" for slot in slots}
    for name in arrays:
        if name.startswith("optimizer/") and name.count("/") > 1 and name.rpartition("/")[0] + "/" not in known:
            slots.setdefault(name.split("/")[1], [])  # a slot that this optimizer lacks: let it say so
    groups = [{k: tuple(v) if isinstance(v, list) else v for k, v in group.items()} for group in saved["groups"]]
    return {**saved, "groups": groups, "steps": arrays.get("optimizer/steps", np.zeros(0, np.int64)), "slots": slots}


def _below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
