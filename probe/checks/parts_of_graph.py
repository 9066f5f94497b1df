"""Which modules made a value that a loss is computed of: those of the parameters behind it in the graph."""

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, Final

import torch

from .reached_parameters import all_leaves


class PartsOfGraph:
    """Finds modules by nodes of a graph.

    Args:
        parameters: Returns all parameters by site, of a model that may change.
    """

    def __init__(self, parameters: Callable[[], Iterable[tuple[str, torch.Tensor]]] = tuple) -> None:
        self._parameters = parameters

    def maker_of(self, node: Any) -> str:
        """Return the site of the module whose parameter is nearest behind a node: empty where none is known."""
        sites = self._sites()
        nearest = next(all_leaves([node], is_nearest_first=True), None)
        return sites.get(id(nearest), "").rpartition(".")[0]

    def makers_of(self, node: Any) -> str:
        """Return the site of the innermost module that holds all parameters behind a node; empty for the model."""
        sites = self._sites()
        found = {sites[id(leaf)] for leaf in all_leaves([node]) if id(leaf) in sites}
        words = zip(*(site.split(".")[:-1] for site in sorted(found)), strict=False)
        return ".".join(first[0] for first in takewhile(lambda alike: len(set(alike)) == 1, words))

    def _sites(self) -> Mapping[int, str]:
        return {id(parameter): site for site, parameter in self._parameters()}


#: Finds no module.
UNKNOWN_PARTS: Final = PartsOfGraph()
