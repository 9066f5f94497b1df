"""Networks whose logits and gradients stand in closed form, for attacks to be judged against."""

from contextlib import contextmanager

import numpy as np
from mindscope import armour


class ClosedForm:
    """Logits `relu(x V) W + b`, or `x W + b` without a hidden layer, with the gradient written out."""

    framework = "numpy"
    has_gradients = True
    dtype = None

    def __init__(self, weight, bias, hidden=None):
        self.weight, self.bias, self.hidden = weight, bias, hidden
        self.calls = 0

    def native(self, x):
        return np.asarray(x)

    def logits(self, x):
        return self.pullback(x, np.zeros_like)[0]

    def pullback(self, x, cotangent):
        self.calls += 1
        flat = x.reshape(len(x), -1)
        inner = flat if self.hidden is None else flat @ self.hidden.astype(x.dtype)
        logits = np.maximum(inner, 0) @ self.weight.astype(x.dtype) if self.hidden is not None else flat @ self.weight
        logits = (logits + self.bias).astype(x.dtype)
        back = cotangent(logits) @ self.weight.T.astype(x.dtype)
        if self.hidden is not None:
            back = (back * (inner > 0)) @ self.hidden.T.astype(x.dtype)
        return logits, back.reshape(x.shape).astype(x.dtype)

    def pullbacks(self, x, cotangents):
        logits = self.logits(x)
        return logits, [self.pullback(x, lambda _, weight=weight: weight)[1] for weight in cotangents(logits)]

    def training_modules(self):
        return 0

    @contextmanager
    def evaluating(self):
        yield


def linear(features=12, classes=2, seed=0, dtype=np.float32):
    """A linear classifier with weights of the size 1, whose decision passes through the middle of the unit box."""
    weight = np.random.default_rng(seed).standard_normal((features, classes)).astype(dtype)
    return ClosedForm(weight, -0.5 * weight.sum(axis=0))


def perceptron(features=12, classes=4, seed=0):
    """A network with one hidden layer, not linear and not trained."""
    generator = np.random.default_rng(seed)
    hidden = generator.standard_normal((features, 24)).astype(np.float32)
    weight = generator.standard_normal((24, classes)).astype(np.float32) / 5
    inner = np.maximum(generator.uniform(0, 1, (256, features)) @ hidden, 0)
    return ClosedForm(weight, -(inner.mean(axis=0) @ weight).astype(np.float32), hidden)


def model(network, bounds=(0.0, 1.0), normalization=None):
    """The network wrapped."""
    return armour.WrappedModel(network, bounds, normalization, "closed form")


def data(network, samples=60, shape=(12,), seed=1, low=0.0, high=1.0, dtype=np.float32):
    """Inputs drawn from the box, and the classes that the network gives them."""
    x = np.random.default_rng(seed).uniform(low, high, (samples, *shape)).astype(dtype)
    return x, network.logits(x).argmax(axis=1)
