"""Does a loss train the positions of a sequence that hold something, and not padding alone? Read from its gradients."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch

from ..guard import Guard
from .check_result import CheckResult, broken, held
from .padding import padding_of

TRAINED: Final = "what_is_no_padding_is_trained"
_CLAIM: Final = "the loss trains positions that are no padding"
#: Outputs that are followed, axes of a batch of sequences, and positions of a row that must be trained on average: a
#: model may answer at one position of each row, such as the one behind its end. Our choice.
_MOST, _AXES, _FEWEST = 8, 2, 1.5


class TrainedPositions:
    """Follows the gradients of outputs `(batch, positions, ...)` whose tokens end in padding, through one step.

    The mask of a loss is one where a sequence holds something. Turned upside down, it leaves what comes behind its end,
    which is learned at once, so that the loss falls as it should. There all targets are one token; a model that fills
    in what was hidden at the ends of rows has others.

    Args:
        guard: Takes what fails during a backward pass.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        self._safely: Callable[..., Any] = guard or (lambda work: work)
        self._seen: list[tuple[torch.Tensor, list[torch.Tensor]]] = []
        self._handles: list[Any] = []

    def follow(self, inputs: Iterable[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Follow the gradients of a network's outputs.

        Args:
            inputs: What the network was given.
            outputs: What it has answered, with gradients.
        """
        tokens = [tensor for tensor in inputs if tensor.layout is torch.strided]
        masks = [padded for tensor in tokens if (padded := padding_of(tensor)) is not None]
        for output in outputs:
            padded = next((mask for mask in masks if output.shape[:_AXES] == mask.shape), None)
            if padded is not None and len(self._seen) < _MOST:
                trained: list[torch.Tensor] = []
                self._seen.append((padded, trained))
                self._handles.append(output.register_hook(self._safely(_noting(trained))))

    def results(self, targets: Iterable[torch.Tensor | None]) -> Iterator[CheckResult]:
        """Yield what the gradients of the step have shown, and follow them no longer.

        Args:
            targets: What the step's losses compare with; those of class indices count.
        """
        known = [target for target in targets if target is not None and not target.is_floating_point()]
        for handle in self._handles:
            handle.remove()
        seen, self._seen, self._handles = self._seen, [], []
        for padded, gradients in seen:
            mine = [target.reshape(padded.shape) for target in known if target.numel() == padded.numel()]
            if gradients and mine:
                trained = torch.stack(gradients).any(0).to(padded.device)
                result = _judged(padded, trained, [target.to(padded.device)[trained] for target in mine])
                yield from () if result is None else (result,)


def _noting(trained: list[torch.Tensor]) -> Callable[[torch.Tensor], None]:
    def note(gradient: torch.Tensor) -> None:
        trained.append((gradient.detach() != 0).reshape(*gradient.shape[:_AXES], -1).any(-1))

    return note


def _judged(padded: torch.Tensor, trained: torch.Tensor, targets: Sequence[torch.Tensor]) -> CheckResult | None:
    if not bool(trained.any()):
        return None
    count, rows = int((trained & padded).sum()), int(trained.any(1).sum())
    if bool((trained & ~padded).any()):
        return held(TRAINED, _CLAIM, positions=float(int((trained & ~padded).sum())))
    if count < _FEWEST * rows or not any(bool((target == target[0]).all()) for target in targets):
        return None
    words = (
        f"the loss has a gradient at {count} positions of {len(padded)} sequences, all of them padding, and at none of "
        f"the {int((~padded).sum())} others"
    )
    return broken(TRAINED, _CLAIM, words, positions=float(count))
