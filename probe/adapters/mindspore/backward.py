"""Where MindSpore's gradient functions begin to walk back, and the loss that they start from.

`value_and_grad`, `grad`, `GradOperation` and the training cells of `Model.train` all ask one executor: it is told the
result of the function when that ends, and asked for the gradients next. There is no public hook at either place, so
the two methods are covered while a monitor listens, and uncovered when the last one leaves.
"""

from typing import Any, Protocol

from mindspore.graph.api import _pynative_executor as executor


class Listener(Protocol):
    """What is told of gradient functions."""

    def backward_begins(self, result: Any) -> None:
        """The gradients of this result, of whatever form, are about to be computed."""


class _Cover:
    """The two methods of the executor with listeners before them."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self._results: list[Any] = []

    def put_on(self) -> None:
        """Nothing; the methods are covered."""
        end_graph, grad = executor.end_graph, executor.grad

        def ended(cell: Any, output: Any, *arguments: Any, **options: Any) -> None:
            self._results[:] = [output]
            end_graph(cell, output, *arguments, **options)

        def differentiated(*arguments: Any) -> Any:
            result = self._results.pop() if self._results else None
            for listener in tuple(self.listeners):
                listener.backward_begins(result)
            return grad(*arguments)

        executor.end_graph, executor.grad = ended, differentiated

    def take_off(self) -> None:
        """Nothing; the class's own methods show again."""
        self._results.clear()
        del executor.end_graph, executor.grad


_cover = _Cover()


def add_listener(listener: Listener) -> None:
    """Nothing; the listener is told from now on."""
    if not _cover.listeners:
        _cover.put_on()
    _cover.listeners.append(listener)


def remove_listener(listener: Listener) -> None:
    """Nothing; the listener is no longer told."""
    if listener in _cover.listeners:
        _cover.listeners.remove(listener)
        if not _cover.listeners:
            _cover.take_off()


def loss_of(result: Any) -> float | None:
    """The value of the one element that a result has, or begins with when something auxiliary comes behind it."""
    first = result[0] if isinstance(result, tuple) and result else result
    return float(first.asnumpy().item()) if getattr(first, "size", 0) == 1 else None
