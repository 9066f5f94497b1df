"""The model of a run as a graph with statistics at every node, and the difference of two runs' models."""

from .difference import GraphDifference, NodeDifference, graph_difference
from .graph import METRICS, Edge, ModelGraph, Node, model_graph
from .values import Values, values_at

__all__ = [
    "METRICS",
    "Edge",
    "GraphDifference",
    "ModelGraph",
    "Node",
    "NodeDifference",
    "Values",
    "graph_difference",
    "model_graph",
    "values_at",
]
