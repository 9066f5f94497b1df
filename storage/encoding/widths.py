"""The types that columns are stored in, by their codes in every format: there may be more of them, never others."""

from typing import Any, Final

import numpy as np

#: Code 0 stands for nothing but zeros, and takes no bytes.
DTYPES: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    14: np.dtype("<f4"),
    18: np.dtype("<f8"),
}
