"""Recomputes the product of one dense layer by other means, so that a device that computes wrongly is found."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import torch

from ...recording.recorder import Recorder
from .torch_tensors import PLAIN, is_remote

#: Rows of the input that the layer is given.
_ROWS: Final = 4
#: Error that is allowed, as a share of the sum of absolute products. TF32 and float16 keep 10 bits, bfloat16 7; our
#: choice is four units of them.
_ALLOWED: Final = {torch.float32: 2.0**-8, torch.float64: 2.0**-20, torch.float16: 2.0**-8, torch.bfloat16: 2.0**-5}
#: Elements of the largest weight that is looked at: 256 MB in float64 (our choice).
_MOST: Final = 1 << 25
#: How often the layer is asked again once it was wrong.
_AGAIN: Final = 3


class Recomputation:
    """Asks one dense layer a step, drawn by the step's number, for a product whose value is computed in float64 beside.

    The input is drawn without torch's generators, and neither hooks nor gradients are involved. An error beyond what
    the element type rounds is a wrong computation, or weights that change between two reads.
    """

    def __init__(self, recorder: Recorder, model: Any) -> None:
        self._recorder, self._model = recorder, model

    def look(self, step: int, later: Callable[[Callable[[], None]], None]) -> None:
        """Ask the layer of this step.

        Args:
            later: Calls a function once the numbers of a device have arrived.
        """
        layers = [(site, module) for site, module in self._model.named_modules() if _is_dense(module)]
        if not layers:
            return
        drawn = int.from_bytes(blake2b(f"layer {step}".encode(), digest_size=8).digest(), "little")
        site, layer = layers[drawn % len(layers)]
        excess = _excess(layer, drawn)
        if not is_remote(excess):
            self._tell(site, layer, step, drawn, float(excess))
        elif self._recorder.device_results.accepts_requests:
            fetched = self._recorder.device_results.fetch(excess.reshape(1))
            later(lambda: self._tell(site, layer, step, drawn, float(fetched.array[0])))

    def _tell(self, site: str, layer: Any, step: int, drawn: int, excess: float) -> None:
        if not excess > 1.0:  # NaN, where weights are not finite, is no wrong product
            return
        wrong = 0 if is_remote(layer.weight) else sum(float(_excess(layer, drawn)) > 1.0 for _ in range(_AGAIN))
        self._recorder.event("product_is_wrong", site, at=step, error=excess, again=_AGAIN, wrong_again=wrong)


def _is_dense(module: Any) -> bool:
    if type(module) is not torch.nn.Linear:
        return False
    weight = module.weight
    return type(weight) in PLAIN and weight.dtype in _ALLOWED and 0 < weight.numel() <= _MOST and not weight.is_meta


def _excess(layer: torch.nn.Linear, seed: int) -> torch.Tensor:
    """Return how many times the allowed error the product is wrong, on the layer's device."""
    weight = layer.weight
    drawn = np.random.default_rng(seed).normal(size=(_ROWS, layer.in_features))
    x = torch.from_numpy(drawn).to(device=weight.device, dtype=weight.dtype)
    with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):
        given = torch.nn.Linear.forward(layer, x).double()
        wide, exact = weight.double().T, x.double()
        expected, scale = exact @ wide, exact.abs() @ wide.abs()
        if layer.bias is not None:
            expected, scale = expected + layer.bias.double(), scale + layer.bias.double().abs()
    return ((given - expected).abs() / (_ALLOWED[weight.dtype] * scale.clamp_min(1e-30))).max()
