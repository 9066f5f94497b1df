"""What the kernels read: memory by its address, in one of four element types, whose names are for readers only."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float32] | NDArray[np.float64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Halves = NDArray[np.uint16]
Ints = NDArray[np.int64]

#: Codes of the element types that the kernels read in place.
FLOAT32: Final = 0
FLOAT64: Final = 1
FLOAT16: Final = 2
BFLOAT16: Final = 3

#: Elements of a chunk, which stays in the first-level cache.
CHUNK: Final = 4096
