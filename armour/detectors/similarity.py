"""Detection of black-box attacks by their queries: a search asks for many inputs that are nearly alike."""

from collections import deque

import numpy as np

from ..arrays import Floats, Images
from ..arrays.statistics import pairwise_distances
from ..errors import InvalidInput
from .detector import Features, flat_features


class QuerySimilarity:
    """Remembers the last queries of one client; scores each by how near its nearest predecessors are.

    Args:
        features: In which queries are compared.
        neighbours: How many predecessors are averaged.
        memory: How many queries are remembered.

    Reference:
        Chen, Carlini, Wagner 2019, arXiv:1907.05587, section 4.
    """

    def __init__(self, features: Features, *, neighbours: int = 50, memory: int = 1000) -> None:
        if not 1 <= neighbours <= memory:
            raise InvalidInput(f"neighbours expects 1 to memory, got {neighbours} and {memory}")
        self._features, self._neighbours = features, neighbours
        self._past: deque[Floats] = deque(maxlen=memory)

    def scores(self, x: Images) -> Floats:
        """`(n,)` minus the mean distance to the nearest predecessors, in order; -inf while there are too few."""
        found = np.full(len(x), -np.inf)
        for row, query in enumerate(flat_features(self._features, x)):
            if len(self._past) >= self._neighbours:
                distances = pairwise_distances(query[None], np.stack(self._past))[0]
                found[row] = -np.partition(distances, self._neighbours - 1)[: self._neighbours].mean()
            self._past.append(query)
        return found

    def forget(self) -> None:
        """Nothing is remembered any more, as after an alarm."""
        self._past.clear()
