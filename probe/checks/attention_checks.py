"""Does attention weigh values with weights that sum to one, and does a model of tokens know their order?"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from .check_result import CheckResult, broken, held, undecided
from .model_probe import ModelProbe, NotAnswered

WEIGHTS, ORDER = "attention_weights_sum_to_one", "order_of_tokens_matters"
_WEIGHTS = "the weights of attention sum to one over what they weigh"
_ORDER = "the outputs depend on the order of the tokens {name}"
_SOFTMAXES: Final = frozenset({"softmax", "_softmax", "softmax_"})
_PRODUCTS: Final = frozenset({"matmul", "__matmul__", "bmm"})
_ATTENTIONS: Final = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
#: Axes of a tensor of attention weights, and the shortest row of them. Our choice: (batch, query, key) at least.
_AXES, _SHORTEST = 3, 3
#: Shortest sequence, and fewest different tokens of it, of which the order is tried.
_POSITIONS, _DIFFERENT = 8, 5


class AttentionSeen(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped where it is not installed
    """Notes, in a call of a copy, softmaxes whose result weighs values by a matrix product.

    Attributes:
        has_attention: Whether anything was weighed.
        wrong: Shape and axis of weights that are normalised along another axis than the one that is summed over.
    """

    def __init__(self) -> None:
        super().__init__()
        self._weights: dict[int, tuple[torch.Tensor, int]] = {}
        self.has_attention = False
        self.wrong: tuple[tuple[int, ...], int] | None = None

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and note what it does with weights."""
        options = keywords or {}
        name = getattr(function, "__name__", "")
        result = function(*arguments, **options)
        if name in _SOFTMAXES and isinstance(result, torch.Tensor) and result.dim() >= _AXES:
            axis = options.get("dim", arguments[1] if len(arguments) > 1 else None)
            if isinstance(axis, int):
                self._weights[id(result)] = result, axis % result.dim()
        elif name == "dropout" and id(arguments[0]) in self._weights and isinstance(result, torch.Tensor):
            self._weights[id(result)] = result, self._weights[id(arguments[0])][1]
        elif name in _PRODUCTS and id(arguments[0]) in self._weights:
            weights, axis = self._weights[id(arguments[0])]
            self.has_attention = True
            if axis != weights.dim() - 1 and min(weights.shape[axis], weights.shape[-1]) >= _SHORTEST:
                self.wrong = self.wrong or (tuple(weights.shape), axis)
        self.has_attention |= name in _ATTENTIONS
        return result


def attention_is_over_the_tokens(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check the weights of attention that the model computes itself, and whether it knows the order of its tokens."""
    seen = AttentionSeen()
    try:
        with seen:
            probe.answers({})
    except NotAnswered as reason:
        yield undecided(WEIGHTS, _WEIGHTS, str(reason))
        return
    if not seen.has_attention:
        return
    if seen.wrong is None:
        yield held(WEIGHTS, _WEIGHTS)
    else:
        shape, axis = seen.wrong
        words = (
            f"a softmax along axis {axis} of {shape} makes weights, and the values are summed with them along the last "
            "axis"
        )
        yield broken(WEIGHTS, _WEIGHTS, words, axis=float(axis))
    yield from _order(probe)


def _order(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check that outputs do not just move with their tokens when the positions are exchanged."""
    tensors = probe.call.tensors()
    tokens = [(name, tensor) for name, tensor in tensors.items() if _is_text(tensor)]
    if not tokens or len({tensor.shape for _, tensor in tokens}) > 1:
        return
    name, first = tokens[0]
    claim = _ORDER.format(name=name)
    order = torch.arange(first.shape[1] - 1, -1, -1, device=first.device)
    changed = {key: tensor[:, order] for key, tensor in tensors.items() if tensor.shape[:2] == first.shape[:2]}
    if len(changed) < len([tensor for tensor in tensors.values() if tensor.dim() > 1]):
        return  # something else has positions as well, such as a mask of pairs
    try:
        answers = probe.answers(changed)
    except NotAnswered as reason:
        yield undecided(ORDER, claim, str(reason), subject=name)
        return
    is_pooled = True
    for at, (answer, base) in enumerate(zip(answers, probe.base, strict=False)):
        if answer.shape != base.shape:
            return
        is_positioned = base.dim() > 2 and base.shape[1] == first.shape[1]
        is_pooled &= not is_positioned
        expected = base[:, order] if is_positioned else base
        if float((answer - expected).abs().max()) > probe.limit(at):
            yield held(ORDER, claim, subject=name)
            return
    words = f"with the {first.shape[1]} positions of {name} in reverse order, every output is the same at its token"
    yield broken(ORDER, claim, words, subject=name, positions=float(first.shape[1]), is_pooled=float(is_pooled))


def _is_text(tensor: torch.Tensor) -> bool:
    if tensor.is_floating_point() or tensor.dtype is torch.bool or tensor.dim() != 2:
        return False
    rows, positions = tensor.shape
    return rows > 1 and positions >= _POSITIONS and all(len(row.unique()) >= _DIFFERENT for row in tensor[:2])
