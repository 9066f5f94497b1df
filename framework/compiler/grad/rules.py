"""The rules of primitives, written on tensors, as nodes of a graph: a rule is run once on traced tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...context import quiet
from ...ir import Graph, Node, Where
from ...primitive import PRIMITIVES, Primitive
from ...tensor import wrap
from ..capture import GraphCapture

__all__ = ["RuleCapture"]

#: Goes back from the outputs of nodes just captured to some of their inputs:
#: `(graph, outputs, cotangents, inputs) -> cotangents of the inputs`.
PullNodes = Callable[[Graph, Sequence[Node], Sequence[Node | None], Sequence[Node]], Sequence[Node | None]]


class RuleCapture(GraphCapture):
    """Appends what rules compute to a graph.

    Args:
        graph: Where the nodes go.
        pull_nodes: How to differentiate a composition, for rules that are given as one.
    """

    def __init__(self, graph: Graph, pull_nodes: PullNodes) -> None:
        super().__init__(graph.name)
        self.root = self.graph = graph
        self._where = Where()
        self._pull_nodes = pull_nodes

    def where(self) -> Where:
        """The place of the node whose rule is running."""
        return self._where

    def pull(
        self,
        primitive: Primitive,
        needs: Sequence[bool],
        cotangent: Node | Sequence[Node | None],
        out: Node | Sequence[Node],
        inputs: Sequence[Node],
        attributes: dict[str, Any],
        where: Where,
    ) -> list[Node | None]:
        """The cotangents of the inputs that need one, from that of the output (one each, of several)."""
        self._where = where
        given = [self.value_of(x) for x in inputs]
        g = self.value_of(cotangent) if isinstance(cotangent, Node) else [self._optional(part) for part in cotangent]
        result: Any = None
        if primitive.saves_output:
            result = self.value_of(out) if isinstance(out, Node) else tuple(self.value_of(part) for part in out)
        with self.active(), quiet():
            if primitive._joint is not None:
                found = primitive._joint(needs, g, result, *given, **attributes)
            else:
                found = [
                    rule(g, result, *given, **attributes) if need and rule is not None else None
                    for need, rule in zip(needs, primitive._rules, strict=True)
                ]
        return [self.node_of(x) if need and x is not None else None for x, need in zip(found, needs, strict=True)]

    def value_of(self, node: Node) -> Any:
        """What a rule sees of a node: a constant's array as a tensor."""
        value = super().value_of(node)
        return wrap(value) if isinstance(value, np.ndarray) else value

    def _optional(self, node: Node | None) -> Any:
        return None if node is None else self.value_of(node)

    def pull_back(
        self,
        composition: Callable[..., Any],
        needs: Sequence[bool],
        g: Any,
        inputs: Sequence[Any],
        attributes: dict[str, Any],
    ) -> list[Any]:
        """The cotangents of the needed inputs of a function of tensors, which is captured and gone back through."""
        identity = PRIMITIVES["identity"]
        aliases = [self.apply(identity, (x,), {}) if need else x for x, need in zip(inputs, needs, strict=True)]
        result = composition(*aliases, **attributes)
        outputs = result if isinstance(result, tuple) else (result,)
        weights = g if isinstance(result, tuple) else (g,)
        found = self._pull_nodes(
            self.graph,
            [self.node_of(y) for y in outputs],
            [None if w is None else self.node_of(w) for w in weights],
            [self.node_of(x) for x, need in zip(aliases, needs, strict=True) if need],
        )
        rest = iter(None if node is None else self.value_of(node) for node in found)
        return [next(rest) if need else None for need in needs]
