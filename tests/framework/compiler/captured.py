"""Functions of tensors as graphs, for tests: captured on traced tensors of given types."""

import numpy as np
from mindscope.framework import Tensor
from mindscope.framework.compiler.capture import GraphCapture
from mindscope.framework.compiler.graph_gradient import grad_graph
from mindscope.framework.context import CAPTURE, quiet
from mindscope.framework.dtype import is_complex, is_inexact
from mindscope.framework.ir import type_of
from mindscope.framework.ir.clone import inline
from mindscope.framework.ops import imag, real


def captured(fn, types, name="f"):
    """The graph of a function of tensors of these types."""
    capture = GraphCapture(name)
    traced = [capture.value_of(capture.root.add_parameter(type, f"x{i}")) for i, type in enumerate(types)]
    with capture.active(), quiet():
        result = fn(*traced)
        return capture.finish(result)


def weighted(outputs, seed):
    """The floating-point tensors among the outputs, summed with fixed random weights to a scalar."""
    weights = np.random.default_rng(seed)
    total = Tensor(np.zeros(()))
    for y in outputs if isinstance(outputs, tuple | list) else (outputs,):
        for part in (real(y), imag(y)) if is_complex(y.dtype) else (y,) if is_inexact(y.dtype) else ():
            total = total + (part * Tensor(weights.uniform(0.5, 1.5, y.shape).astype(part.dtype))).sum()
    return total


def gradients_graph(fn, arguments, wrt):
    """The graph of `(fn(*arguments), gradients by the arguments wrt)`, for a function that returns a scalar."""
    return grad_graph(captured(fn, [type_of(x) for x in arguments]), wrt)


def of_graph(graph, *traced):
    """What a graph gives for traced tensors, inside a function that is being captured."""
    capture = CAPTURE.get()
    return capture.value_of(inline(graph, [x.node for x in traced], capture.graph))
