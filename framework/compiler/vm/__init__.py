"""The reference evaluator of graphs, plain and slow: one node after the other, on arrays; backends answer to it.

Every graph becomes a list of steps over numbered registers. Calls live on a stack of frames of our own, so neither
loops (which are recursive graphs) nor deep recursion meet Python's limit; a call whose result is the result of its
graph takes over the frame, so a loop runs in constant space.

A weight's parameter is the value that the weight had when the run began: what `assign` writes becomes visible to other
runs when this one ends, and not at all if it fails. Inside the run the new value is the result of `assign`.
"""

from .code import Closure
from .evaluator import Evaluator, evaluate

__all__ = ["Closure", "Evaluator", "evaluate"]
