"""Do values that a model draws around its own answers carry gradients, as the reparameterisation of a VAE's do?"""

import os
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, Final

import torch
import torch.distributions
from torch.overrides import TorchFunctionMode

from .check_result import CheckResult, broken, held
from .model_probe import ModelProbe, NotAnswered

DRAWN: Final = "drawn_values_carry_gradients"
_CLAIM: Final = "what the model draws around its own answers, and gives to a layer, carries their gradients"
#: Functions that draw numbers, layers with weights, functions that join what they are given, and those by which a
#: draw is scored.
_DRAWS: Final = frozenset({"normal", "randn", "randn_like", "rand", "rand_like", "uniform_", "normal_", "exponential_"})
_LAYERS: Final = frozenset(
    {
        "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "matmul",
        "mm", "addmm", "bmm", "bilinear", "__matmul__",
    }
)  # fmt: skip
_LIKE: Final = frozenset({"randn_like", "rand_like"})
_JOINS: Final = frozenset({"cat", "concat", "stack"})
_SCORES: Final = frozenset({"sub", "__sub__", "rsub", "__rsub__"})
#: Bytes of tensors that are kept while the copy answers.
_MOST_BYTES: Final = 1 << 25
#: Folder of torch's distributions, and frames between a function of torch and a method of theirs.
_DISTRIBUTIONS: Final = os.path.join(os.path.dirname(torch.distributions.__file__), "")
_DEEPEST: Final = 12


class DrawsFollowed(TorchFunctionMode):  # type: ignore[misc]
    """Follows what is drawn around values with gradients, and carries none.

    Attributes:
        layer: Name of the layer that got such a draw; empty so far.
        shape: Shape of the draw.
        is_scored: Whether a draw was compared with what it was drawn around, as its log-probability does.
        is_lost: Whether there was too much to follow.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[torch.Tensor] = []
        self._bytes = 0
        self._shadows: set[int] = set()
        self._random: set[int] = set()
        self._cut: set[int] = set()
        self.layer, self.shape = "", ()
        self.is_scored = self.is_lost = False

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and follow what it returns."""
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        name = getattr(function, "__name__", "")
        if isinstance(result, torch.Tensor) and name != "__get__" and not self.is_lost:
            self._follow(name, list(_tensors_in((*arguments, *keywords.values()))), result)
        return result

    def _follow(self, name: str, given: list[torch.Tensor], result: torch.Tensor) -> None:
        is_off = not torch.is_grad_enabled()
        is_drawn, of_a_draw = name in _DRAWS, any(id(one) in self._random | self._cut for one in given)
        of_answers = any((one.requires_grad and not one.is_leaf) or id(one) in self._shadows for one in given)
        if any(id(one) in self._cut for one in given):
            self._used(name, given)
            if not result.requires_grad or name in _JOINS:
                self._keep(self._cut, result)
        elif of_answers and name not in _LIKE and (_is_sampling() if is_off else is_drawn) and (is_drawn or of_a_draw):
            self._keep(self._cut, result)
            self.shape = tuple(result.shape)
        elif is_drawn or (of_a_draw and not result.requires_grad):
            self._keep(self._random, result)
        elif is_off and of_answers:
            self._keep(self._shadows, result)

    def _used(self, name: str, given: list[torch.Tensor]) -> None:
        is_weighted = any(isinstance(one, torch.nn.Parameter) and one.requires_grad for one in given)
        if name in _LAYERS and is_weighted and not self.layer:
            self.layer = name
        others = [one for one in given if id(one) not in self._cut]
        self.is_scored |= name in _SCORES and any(one.requires_grad or id(one) in self._shadows for one in others)

    def _keep(self, group: set[int], result: torch.Tensor) -> None:
        """Note a tensor, and keep it, so that no other gets its id."""
        self._bytes += result.numel() * result.element_size()
        self.is_lost |= self._bytes > _MOST_BYTES
        self._kept.append(result)
        group.add(id(result))


def drawn_values_carry_gradients(probe: ModelProbe) -> CheckResult | None:
    """Have the copy answer in training mode, and follow what it draws (Kingma and Welling 2014, arXiv:1312.6114).

    `Distribution.sample()` and `torch.normal` give what is drawn no gradient, so nothing that a layer makes of it
    reaches the mean and the deviation. Where the draw is scored, its log-probability carries the gradient instead.

    Returns:
        None where nothing is drawn around values with gradients.
    """
    if any("Sync" in type(module).__name__ for module in probe.modules()):
        return None
    try:
        with DrawsFollowed() as draws:
            probe.answers_while_training()
    except NotAnswered:
        return None
    if not draws.shape or draws.is_scored or draws.is_lost:
        return None
    if not draws.layer:
        return held(DRAWN, _CLAIM)
    words = (
        f"a value of shape {draws.shape} is drawn around what the model has computed and has no gradient, as sample() "
        f"and torch.normal give none; {draws.layer} gets it, and what it was drawn around learns nothing from that"
    )
    return broken(DRAWN, _CLAIM, words)


def _is_sampling() -> bool:
    """Return whether a distribution of torch is drawing; a program that says `no_grad` itself means it."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None or frame.f_code.co_filename.startswith(_DISTRIBUTIONS):
            return frame is not None
        frame = frame.f_back
    return False


def _tensors_in(values: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, torch.Tensor))
