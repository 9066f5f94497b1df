"""Cases of products of runs of rows with a matrix each."""

import numpy as np

from tests.contracts.primitive_case import Case, real


def _matmul(x, matrices, counts):
    group = np.repeat(np.arange(len(counts)), counts)
    return np.einsum("ni,nio->no", x, matrices[group])


def _outer(x, g, counts):
    return np.stack([part.T @ other for part, other in zip(_cut(x, counts), _cut(g, counts), strict=True)])


def _cut(x, counts):
    return np.split(x, np.cumsum(counts)[:-1])


COUNTS = (np.array([2, 0, 3]), np.array([5, 0, 0], np.int32))

CASES = {
    "grouped_matmul": [Case((real(5, 2), real(3, 2, 4), counts), _matmul) for counts in COUNTS],
    "grouped_outer": [Case((real(5, 2), real(5, 4), counts), _outer) for counts in COUNTS],
}

#: Those without a gradient.
SILENT: set[str] = set()
