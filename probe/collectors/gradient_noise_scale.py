"""The gradient noise scale: how many micro-batches a batch should have."""

from functools import partial

from ..quantities.noise_scale import MicroBatches, NoiseScale
from .collector import Collected, Step, collector


@collector("gradient_noise_scale", at="after_step", is_optional=True)
class GradientNoiseScale:
    """Noise of the gradient over its square, in micro-batches: batches much smaller are noisy, much larger wasteful.

    Multiply by the samples of a micro-batch for the number of samples. Needs two backward passes a step or more, of
    equal size, whose gradients `backward` adds up; nothing is recorded of other steps. Averaged over steps; of about a
    quarter of a million elements, evenly spread. Gradients must be zero or None when a step begins. Off unless the
    configuration names it.

    Reference:
        McCandlish et al. 2018, arXiv:1812.06162, appendix A.1.
    """

    def __init__(self) -> None:
        self._scale = NoiseScale()

    def __call__(self, step: Step) -> Collected:
        """The scalar, where the step had micro-batches; late where a device has them."""
        batches = step.micro_batches
        if batches.late:
            return {"gradient_noise_scale": partial(self._of, batches)}
        found = self._of(batches)
        return {} if found is None else {"gradient_noise_scale": found}

    def _of(self, batches: MicroBatches) -> float | None:
        batches.settle()
        squares = list(batches.squares.values())
        return self._scale.add(squares, batches.square_of_sum) if len(squares) > 1 else None
