"""Draws: what a NumPy generator that starts from the key gives."""

import numpy as np
from mindscope.framework import Key

from tests.contracts.primitive_case import Case

_KEY = Key(7)
_SHAPE = {"shape": (3, 4), "dtype": np.dtype("float64")}
_RATES = np.array([0.5, 3.0, 40.0])

CASES = {
    "normal": [Case((_KEY,), lambda key, shape, dtype: key.generator().standard_normal(shape), _SHAPE)],
    "permutation": [
        Case(
            (_KEY,),
            lambda key, shape, dtype: key.generator().permutation(5),
            {"shape": (5,), "dtype": np.dtype("int64")},
        )
    ],
    "exponential": [Case((_KEY,), lambda key, shape, dtype: key.generator().standard_exponential(shape), _SHAPE)],
    "gamma": [Case((_KEY, _RATES), lambda key, x: key.generator().standard_gamma(x), rtol=1e-6)],
    "poisson": [Case((_KEY, _RATES), lambda key, x: key.generator().poisson(x))],
    "randint": [
        Case(
            (_KEY,),
            lambda key, shape, dtype, low, high: key.generator().integers(low, high, shape),
            {"shape": (3, 4), "dtype": np.dtype("int32"), "low": -3, "high": 9},
        )
    ],
    "uniform": [
        Case(
            (_KEY,),
            lambda key, shape, dtype, low, high: low + (high - low) * key.generator().random(shape),
            {**_SHAPE, "low": -1.0, "high": 3.0},
        )
    ],
}
SILENT = {"exponential", "gamma", "normal", "permutation", "poisson", "randint", "uniform"}
