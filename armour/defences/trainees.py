"""The trainee for a model of either framework."""

import sys

from ...framework.nn import Cell
from ..errors import InvalidModel
from .engine_trainee import EngineTrainee
from .trainee import Optimizer, Trainee


def trainee(model: object, optimizer: Optimizer) -> Trainee:
    """The model with the optimizer that moves it.

    Raises:
        InvalidModel: It is neither an engine `Cell` nor a torch `Module`, or has nothing to train.
    """
    if isinstance(model, Cell):
        return EngineTrainee(model, optimizer)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_trainee import TorchTrainee  # noqa: PLC0415  optional extra

        return TorchTrainee(model, optimizer)
    raise InvalidModel(f"a defence trains an engine Cell or a torch Module, got {type(model).__qualname__}")
