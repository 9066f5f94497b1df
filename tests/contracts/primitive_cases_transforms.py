"""Cases of the primitives that transforms are made of."""

import numpy as np
from mindscope.framework.transforms.custom_vjp import _CustomCall

from tests.contracts.primitive_case import Case, real, whole

_TRIPLE = _CustomCall(lambda x, y: ((x * 3.0, x + y), None), lambda _, g: (g[0] * 3.0 + g[1], g[1]))

CASES = {
    "custom_call": [Case((real(2, 3), real(2, 3)), lambda x, y, call: (3 * x, x + y), {"call": _TRIPLE})],
    "full_like": [
        Case((real(2, 3),), lambda x, value: np.full(x.shape, value), {"value": 1.0}),
        Case((whole(9, 4),), lambda x, value: np.zeros(4, np.int64), {"value": 0}),
    ],
    "transfer": [Case((real(2, 3),), lambda x, device: x, {"device": "CPU"})],
}

SILENT = {"full_like"}
