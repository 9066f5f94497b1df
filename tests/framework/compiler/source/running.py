"""Runs a function captured from its source on the reference evaluator, as `jit` would, without any pass."""

import numpy as np
from mindscope.framework import Tensor
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.signature import Signature, unflatten
from mindscope.framework.compiler.source import capture_source
from mindscope.framework.ir.verify import verify


class Compiled:
    """A function for one signature; every call runs the same graph."""

    def __init__(self, fn, *arguments, **options):
        self.signature, _ = Signature.of(arguments, options)
        self.captured = capture_source(fn, self.signature)
        verify(self.captured.graph)

    def __call__(self, *arguments, **options):
        signature, arrays = Signature.of(arguments, options)
        assert signature == self.signature
        keys = [source() for source in self.captured.keys]
        weights = [parameter.weight._data for parameter in self.captured.graph.weights]
        results = evaluate(self.captured.graph, [*arrays, *keys, *weights])
        leaves = iter([Tensor(x) if isinstance(x, np.ndarray) else x for x in results])
        return unflatten(self.captured.structure, leaves)

    def holds(self):
        """Whether everything that was read outside is what it was."""
        return all(guard.holds() for guard in self.captured.guards)


def run(fn, *arguments, **options):
    """What the captured function returns for these arguments."""
    return Compiled(fn, *arguments, **options)(*arguments, **options)


def plain(value):
    """A result as nested lists and numbers, with dtypes of tensors."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


def assert_equal(found, expected):
    """Nothing; results are equal, a Python number being equal to a tensor of no axes that holds it."""
    found, expected = plain(found), plain(expected)
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_equal(a, b)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_equal(found[key], expected[key])
    elif isinstance(expected, str) or expected is None:
        assert found == expected
    else:
        np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-12, atol=1e-12)
        if isinstance(expected, np.ndarray):
            assert np.asarray(found).shape == expected.shape
            assert np.asarray(found).dtype == expected.dtype
