"""Cells that a loop gives zeros in place of their state are told; those that are called for other reasons are not."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.carried_state import CarriedStates  # noqa: E402  torch is there
from torch import nn  # noqa: E402


class ConvCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv2d(5, 2, 3, padding=1)

    def forward(self, x: Any, state: Any) -> Any:
        return torch.tanh(self.gates(torch.cat([x, state], 1)))


def told(cell: nn.Module, program: Callable[[Callable[..., Any]], None]) -> bool:
    states = CarriedStates()

    def call(*given: Any) -> Any:
        output = cell(*given)
        states.called(cell, given, {}, output)
        return output

    program(call)
    states.pass_begins()
    return bool(list(states.results({"cell": cell})))


def _loop(state: Callable[[Any], Any], steps: int = 6) -> Callable[[Callable[..., Any]], None]:
    def program(call: Callable[..., Any]) -> None:
        h = torch.zeros(3, 7)
        for _ in range(steps):
            h = call(torch.randn(3, 5), *state(h))

    return program


def _of_pictures(is_carried: bool) -> Callable[[Callable[..., Any]], None]:
    def program(call: Callable[..., Any]) -> None:
        h = torch.zeros(3, 2, 8, 8)
        for _ in range(5):
            h = call(torch.randn(3, 3, 8, 8), h if is_carried else torch.zeros(3, 2, 8, 8))

    return program


def _same_input(call: Callable[..., Any]) -> None:
    x = torch.randn(3, 5)
    for _ in range(6):
        call(x, torch.zeros(3, 7))


FORGOTTEN: Mapping[str, tuple[nn.Module, Any]] = {
    "zeros like the state": (nn.GRUCell(5, 7), _loop(lambda h: (torch.zeros_like(h),))),
    "no state": (nn.RNNCell(5, 7), _loop(lambda h: ())),
    "a cell of the program's own": (ConvCell(), _of_pictures(is_carried=False)),
}
CARRIED: Mapping[str, tuple[nn.Module, Any]] = {
    "the state": (nn.GRUCell(5, 7), _loop(lambda h: (h,))),
    "the state without its gradient": (nn.GRUCell(5, 7), _loop(lambda h: (h.detach(),))),
    "few calls": (nn.GRUCell(5, 7), _loop(lambda h: (torch.zeros_like(h),), steps=3)),
    "of pictures": (ConvCell(), _of_pictures(is_carried=True)),
    "the same input": (nn.GRUCell(5, 7), _same_input),
    "no cell": (nn.Bilinear(5, 7, 2), _loop(lambda h: (torch.zeros(3, 7),))),
}


@pytest.mark.parametrize(("cell", "program"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_cell_that_never_gets_its_state_is_told(cell: Any, program: Any) -> None:
    assert told(cell, program)


@pytest.mark.parametrize(("cell", "program"), CARRIED.values(), ids=CARRIED)
def test_a_cell_that_gets_its_state_is_not_told(cell: Any, program: Any) -> None:
    assert not told(cell, program)


TRAINING = """
class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(4, 8), nn.Linear(8, 1)
    def run(self, x):  # no forward
        h = torch.zeros(len(x), 8)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], {state})
        return self.out(h)
model = Filter()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(16, 6, 4)
    loss = (model.run(x) - x.sum((1, 2))[:, None]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("state", "is_told"), [("torch.zeros_like(h)", True), ("h", False)])
def test_a_training_that_forgets_its_state_is_told_so(run_alike: Any, state: str, is_told: bool) -> None:
    store, found, _ = run_alike(TRAINING.format(state=state))
    named = [
        one
        for one in store.findings(found.id)
        if one.cause == "formula_error" and "a state of zeros" in one.explanation
    ]
    assert bool(named) == is_told
