"""A cell of the engine or a torch module, made a model that attacks understand."""

import sys
import warnings

from ...framework.nn import Cell
from ..errors import InvalidInput, InvalidModel
from .classifier import Model
from .engine_network import EngineNetwork
from .network import Network
from .normalization import Normalization


def wrap(model: object, bounds: tuple[float, float] = (0.0, 1.0), preprocessing: Normalization | None = None) -> Model:
    """The model as attacks see it.

    Args:
        model: An engine `Cell` or a torch `Module` that takes `(n, ...)` inputs and returns `(n, classes)` logits.
        bounds: Smallest and largest value that an input element may have.
        preprocessing: Normalization that the model expects and does not do itself.

    Raises:
        InvalidModel: It is neither, or torch is missing.
    """
    if isinstance(model, Model):
        raise InvalidModel("wrap expects an engine Cell or a torch Module, got a model that is wrapped already")
    if preprocessing is not None and not isinstance(preprocessing, Normalization):
        raise InvalidInput(
            f"preprocessing expects a Normalization(mean, std), got {type(preprocessing).__name__}; "
            "put any other preprocessing into the model, so that gradients pass through it"
        )
    network = network_of(model)
    if count := network.training_modules():
        warnings.warn(
            f"{type(model).__name__} has {count} modules in training mode; attacks switch them to evaluation mode and "
            "restore them afterwards. Call eval() (torch) or set_train(False) (engine) first to say that you mean it",
            stacklevel=2,
        )
    return Model(network, bounds, preprocessing, type(model).__name__)


def network_of(model: object) -> Network:
    """What an engine `Cell` or a torch `Module` offers; `InvalidModel` when it is neither."""
    if isinstance(model, Cell):
        return EngineNetwork(model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_network import TorchNetwork  # noqa: PLC0415  optional extra

        return TorchNetwork(model)
    raise InvalidModel(
        f"wrap expects an engine Cell or a torch Module, got {type(model).__module__}.{type(model).__qualname__}"
    )
