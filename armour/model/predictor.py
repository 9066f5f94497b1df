"""Predictors without gradients as networks to attack: scikit-learn estimators, ONNX Runtime sessions, functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pandas as pd

from ..array_api import Array, to_numpy
from ..errors import InvalidModel
from .output_field import OutputField
from .outputs import Classes, Returns

# Any: an estimator, a session or a function of any library, known by its methods alone.
_Predictor = Any
_Call = Callable[[Array], object]

#: By element type of ONNX. Others are no inputs that an attack could change a little.
_ONNX_DTYPES: Final = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}


class PredictorNetwork:
    """What answers with scores or labels of NumPy inputs, and never with a gradient.

    Args:
        framework: Where the predictor comes from, for the record.
        call: Returns the predictor's answer to `(n, ...)` inputs.
        field: Which part of the answer is taken.
        returns: What the answer means, None where it shows only as it comes.
        classes: The labels that the predictor knows, None where it does not say.
        dtype: The element type that the predictor takes, None for any.
        fixed_batch: The only number of rows that the predictor takes at once, None for any.
    """

    has_gradients = False

    def __init__(
        self,
        framework: str,
        call: _Call,
        field: OutputField,
        *,
        returns: Returns | None = None,
        classes: Classes | None = None,
        dtype: str | None = None,
        fixed_batch: int | None = None,
    ) -> None:
        self.framework, self.dtype, self.returns, self.classes = framework, dtype, returns, classes
        self._call, self._field, self._fixed_batch = call, field, fixed_batch

    def native(self, x: Array) -> Array:
        """Convert `x` to a NumPy array; the dtype stays."""
        return np.asarray(to_numpy(x) if hasattr(x, "detach") else x)

    def logits(self, x: Array) -> Array:
        """Return what the predictor answers for `x`."""
        inputs = x if self.dtype is None else x.astype(self.dtype, copy=False)
        if self._fixed_batch is None:
            return self._answer(inputs)
        size = self._fixed_batch
        parts = [inputs[start : start + size] for start in range(0, len(inputs), size)]
        padded = [np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)]) for part in parts]
        return np.concatenate([self._answer(part) for part in padded])[: len(x)]

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Refuse: there is no gradient."""
        raise InvalidModel(f"a {self.framework} predictor has no gradients; take attacks that ask for none")

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Refuse: there is no gradient."""
        raise InvalidModel(f"a {self.framework} predictor has no gradients; take attacks that ask for none")

    def training_modules(self) -> int:
        """Return 0: predictors have no modes."""
        return 0

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Do nothing: predictors have no modes."""
        yield

    def _answer(self, x: Array) -> Array:
        found = self._field.of(self._call(x), len(x))
        if isinstance(found, list) and found and isinstance(found[0], Mapping):  # what sklearn-onnx writes: a map a row
            found = [list(row.values()) for row in found]
        return to_numpy(found) if hasattr(found, "detach") else np.asarray(found)


def predictor_network(
    model: _Predictor,
    field: OutputField,
    returns: Returns | None,
    classes: Classes | None,
    *,
    classifies: bool = True,
) -> PredictorNetwork | None:
    """Return the network of an estimator, a session or a function; None for anything else.

    Args:
        field: Which part of the answer is taken.
        classifies: False for an estimator whose task is another one: it is asked for what it predicts.

    Raises:
        InvalidModel: An estimator is no classifier, or a session takes no single array of real numbers.
    """
    if isinstance(model, type):
        return None
    if hasattr(model, "get_inputs") and hasattr(model, "run"):
        return _session_network(model, field, returns, classes)
    if any(hasattr(model, name) for name in ("predict_proba", "decision_function", "predict")):
        if not classifies:
            return PredictorNetwork("scikit-learn", _on_columns(model, "predict"), field)
        return _estimator_network(model, field, returns, classes)
    if callable(model):
        return PredictorNetwork("function", model, field, returns=returns, classes=classes)
    return None


def _estimator_network(
    model: _Predictor, field: OutputField, returns: Returns | None, classes: Classes | None
) -> PredictorNetwork:
    """Ask for probabilities where the estimator has them, else for its decision function, else for labels."""
    if classes is None and hasattr(model, "classes_"):
        classes = np.asarray(model.classes_)
    if classes is None:
        raise InvalidModel(
            f"{type(model).__name__} has no classes_: it is not fitted, or no classifier; fit it, or name the labels "
            "that it returns: wrap(model, classes=[...])"
        )
    if classes.ndim != 1:
        raise InvalidModel(f"{type(model).__name__} has several outputs; wrap a function that returns one of them")
    scores = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    if returns != "labels" and hasattr(model, scores):
        means: Returns = "probabilities" if scores == "predict_proba" else "logits"
        return PredictorNetwork("scikit-learn", _on_columns(model, scores), field, returns=means, classes=classes)
    return PredictorNetwork("scikit-learn", _on_columns(model, "predict"), field, returns="labels", classes=classes)


def _on_columns(model: _Predictor, name: str) -> _Call:
    """Return the method, with a table for an estimator that was fitted to named columns."""
    method: _Call = getattr(model, name)
    names = getattr(model, "feature_names_in_", None)
    return method if names is None else lambda x: method(pd.DataFrame(x, columns=names))


def _session_network(
    session: _Predictor, field: OutputField, returns: Returns | None, classes: Classes | None
) -> PredictorNetwork:
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _ONNX_DTYPES:
        listed = ", ".join(f"{each.name} {each.type}" for each in inputs)
        raise InvalidModel(
            f"an ONNX session must take one array of real numbers, got {listed}; wrap a function of the array to "
            "attack that runs the session with the other inputs"
        )
    name, names = inputs[0].name, [each.name for each in session.get_outputs()]
    batch = inputs[0].shape[0] if inputs[0].shape else None

    def call(x: Array) -> object:
        found = session.run(None, {name: x})
        return found[0] if len(names) == 1 else dict(zip(names, found, strict=True))

    return PredictorNetwork(
        "onnx",
        call,
        field,
        returns=returns,
        classes=classes,
        dtype=_ONNX_DTYPES[inputs[0].type],
        fixed_batch=batch if isinstance(batch, int) else None,
    )
