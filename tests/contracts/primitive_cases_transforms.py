"""Cases of the primitives that transforms are made of."""

import numpy as np

from tests.contracts.primitive_case import Case, real, whole

CASES = {
    "full_like": [
        Case((real(2, 3),), lambda x, value: np.full(x.shape, value), {"value": 1.0}),
        Case((whole(9, 4),), lambda x, value: np.zeros(4, np.int64), {"value": 0}),
    ],
}

SILENT = {"full_like"}
