"""The gradient noise scale from the gradients of micro-batches.

Each backward pass of a step adds `u_i` to what the parameters hold; their sum is `U`. With a micro-batch as the unit,
`k` of them, and `c` the factor of the user's own scaling of the loss, small batches have the gradient `k c u_i` and the
large one `c U`. The estimates of the noise and of the squared gradient are unbiased, each is averaged over steps, and
in their ratio `c` falls out.

Reference:
    McCandlish et al. 2018, arXiv:1812.06162, appendix A.1.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Late(Protocol):
    """Numbers on their way from a device.

    Attributes:
        array: The numbers, once they have arrived.
    """

    array: NDArray[np.float64]


@dataclass(slots=True)
class MicroBatches:
    """What the backward passes of one step have added to the gradients.

    Args:
        squares: Squared norm of it, by micro-step.
        square_of_sum: Squared norm of all of it together.
        late: Parts that are pending on a device, by micro-step: `(2,)` square and growth.
    """

    squares: dict[int, float] = field(default_factory=dict)
    square_of_sum: float = 0.0
    late: list[tuple[int, Late]] = field(default_factory=list)

    def add(self, micro_step: int, square: float, growth: float) -> None:
        """Add one parameter's part: its square, and by how much the square of the sum grows."""
        self.squares[micro_step] = self.squares.get(micro_step, 0.0) + square
        self.square_of_sum += growth

    def settle(self) -> None:
        """Add the parts that a device has delivered."""
        late, self.late = self.late, []
        for micro_step, part in late:
            square, growth = part.array.tolist()
            self.add(micro_step, square, growth)


@dataclass(slots=True)
class NoiseScale:
    """Running averages of the two estimates.

    Args:
        decay: Of the averages, per step.
    """

    decay: float = 0.95
    noise: float = 0.0
    square: float = 0.0

    def add(self, squares: list[float], square_of_sum: float) -> float:
        """Add a step; return the noise scale in micro-batches, NaN while the squared gradient is not above zero.

        Args:
            squares: Squared norm of what each backward pass of the step added, two or more.
            square_of_sum: Squared norm of their sum.

        Raises:
            ValueError: Fewer than two micro-batches.
        """
        count = len(squares)
        if count < 2:
            raise ValueError(f"a noise scale needs the gradients of two micro-batches or more, got {count}")
        small = count * sum(squares)  # mean of |k u_i|^2
        noise = (small - square_of_sum) / (1.0 - 1.0 / count)
        square = (count * square_of_sum - small) / (count - 1.0)
        keep = self.decay if (self.noise or self.square) else 0.0
        self.noise = keep * self.noise + (1.0 - keep) * noise
        self.square = keep * self.square + (1.0 - keep) * square
        return self.noise / self.square if self.square > 0.0 else math.nan
