"""Does a model in evaluation mode answer a call twice alike? A copy is asked with other random numbers."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from .check_result import CheckResult, broken, held
from .model_probe import ModelProbe, NotAnswered

REPEATABLE: Final = "answers_are_repeatable"
_CLAIM: Final = "in evaluation mode the model's answer does not hang on random numbers"
#: Functions that draw numbers as weights and features are drawn, in place or not.
_NUMBERS: Final = frozenset(
    {
        "randn", "rand", "randn_like", "rand_like", "normal", "uniform", "randperm", "randint", "kaiming_uniform",
        "kaiming_normal", "trunc_normal",
    }
)  # fmt: skip
#: Functions that draw choices: a model that samples from a distribution, or drops out by hand, means it.
_CHOICES: Final = frozenset(
    {"bernoulli", "multinomial", "exponential", "poisson", "binomial", "geometric", "cauchy", "gumbel_softmax"}
)
#: Share of the outputs' spread between samples that other random numbers must move them by, and of their size. Our
#: choice: less may be an estimate that is meant to be random, such as attention by random features.
_SHARE, _OF_THE_SIZE = 0.5, 1e-3
_FEWEST: Final = 4


class DrawsSeen(TorchFunctionMode):  # type: ignore[misc]
    """Notes the random numbers that are drawn by torch's functions.

    Attributes:
        numbers: Shape of each tensor of numbers, and whether it is drawn into a parameter: of a layer that is made.
        has_choices: Whether a choice was drawn.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[tuple[tuple[int, ...], bool]] = []
        self.has_choices = False

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and note what it draws."""
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        spelled = getattr(function, "__name__", "")
        name = spelled.rstrip("_")
        self.has_choices |= name in _CHOICES
        if name in _NUMBERS and isinstance(result, torch.Tensor):
            given = (*arguments, *keywords.values())
            is_made = spelled.endswith("_") and any(isinstance(value, torch.nn.Parameter) for value in given)
            self.numbers.append((tuple(result.shape), is_made))
        return result


def answers_are_repeatable(probe: ModelProbe) -> CheckResult | None:
    """Ask the copy again with other random numbers: half the spread between samples may not come from them.

    Numbers of the shape of a parameter are left out (weights of a Bayesian network), and so are choices, functional
    dropout, which a check of its own tells, and models with several outputs, which may sample between them. The result
    says by the number `is_shared` whether all samples share what is drawn, as they would share weights or features;
    numbers for each sample may be a noise that is meant.

    Returns:
        None where nothing is drawn that counts.
    """
    if probe.dropouts.found or len(probe.base) != 1:
        return None
    output = probe.base[0]
    inputs = [tensor for tensor in probe.call.tensors().values() if tensor.dim()]
    if output.dim() < 2 or output.shape[0] < _FEWEST or output.shape[0] not in {each.shape[0] for each in inputs}:
        return None
    try:
        with DrawsSeen() as draws:
            answer = probe.answers_drawn_anew()[0]
    except NotAnswered:
        return None
    shapes = {tuple(each.shape) for module in probe.modules() for each in module.parameters(recurse=False)}
    is_bayesian = any(shape in shapes and not is_made for shape, is_made in draws.numbers)
    if not draws.numbers or draws.has_choices or is_bayesian or answer.shape != output.shape:
        return None
    moved, size = float((answer - output).pow(2).mean().sqrt()), float(output.pow(2).mean().sqrt())
    spread = float(output.std(0).pow(2).mean().sqrt())
    if not (moved > _SHARE * spread and moved > _OF_THE_SIZE * size):
        return held(REPEATABLE, _CLAIM, moved=moved, spread=spread, size=size)
    is_shared = all(
        is_made or (max(shape, default=1) > 1 and output.shape[0] not in shape) for shape, is_made in draws.numbers
    )
    words = (
        f"a copy in evaluation mode draws random numbers {draws.numbers[0][0]} in its forward: for the same call and "
        f"others of them, its output moves by {moved:.3g} (root mean square), while samples differ by {spread:.3g}"
    )
    return broken(REPEATABLE, _CLAIM, words, is_shared=float(is_shared), moved=moved, spread=spread, size=size)
