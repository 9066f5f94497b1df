"""Rows of a batch that do not belong together are told; orders, neighbours in time and other stores are not."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.drawn_rows import BESIDE, REACH, TOGETHER, WHOLE, DrawnRows  # noqa: E402  torch is there


def outcomes(program: Callable[[], None]) -> Mapping[str, str]:
    mode = DrawnRows()
    assert mode.begin()
    try:
        program()
    finally:
        mode.stop()
        assert mode.leave()
    return {result.check: result.outcome for result in mode.results()}


def joined(read: Callable[[Any, Any, Any, int], tuple[Any, Any]]) -> str:
    x, y = torch.randn(200, 5), torch.randn(200)
    order, weights = torch.randperm(200, generator=torch.Generator().manual_seed(1)), torch.randn(5, requires_grad=True)

    def program() -> None:
        batch, labels = read(x, y, order, 32)
        ((batch @ weights) - labels).square().mean()

    return outcomes(program).get(TOGETHER, "none")


APART: Mapping[str, Callable[[Any, Any, Any, int], tuple[Any, Any]]] = {
    "labels by place": lambda x, y, order, n: (x[order[:n]], y[:n]),
    "labels by a later place": lambda x, y, order, n: (x[order[n : 2 * n]], y[n : 2 * n]),
    "inputs by place": lambda x, y, order, n: (x[n : 2 * n], y.index_select(0, order[n : 2 * n])),
    "of a tensor that was made anew": lambda x, y, order, n: (x[order[:n]], (2 * y)[:n].clone()),
}
AS_ONE: Mapping[str, Callable[[Any, Any, Any, int], tuple[Any, Any]]] = {
    "by one order": lambda x, y, order, n: (x[order[:n]], y[order[:n]]),
    "by draws": lambda x, y, order, n: (lambda rows: (x[rows], y[rows]))(torch.randint(0, 200, (n,))),
    "by places": lambda x, y, order, n: (x[n : 2 * n], y[n : 2 * n]),
    "shuffled as a whole": lambda x, y, order, n: (x[order][:n], y[order][:n]),
    "two sets of one kind": lambda x, y, order, n: (x[order[:n]] + torch.randn(200, 5)[:n], y[order[:n]]),
    "a table that is longer": lambda x, y, order, n: (x[order[:n]] + torch.zeros(300, 1)[:n], y[order[:n]]),
}


@pytest.mark.parametrize("read", APART.values(), ids=APART)
def test_rows_that_are_drawn_from_one_tensor_and_taken_in_order_from_another_are_told(read: Any) -> None:
    assert joined(read) == "broken"


@pytest.mark.parametrize("read", AS_ONE.values(), ids=AS_ONE)
def test_rows_of_one_order_are_not_told(read: Any) -> None:
    assert joined(read) in ("held", "none")


def test_slices_that_never_meet_the_batch_are_not_told() -> None:
    x, y = torch.randn(200, 5), torch.randn(200)

    def program() -> None:
        rows = torch.randint(0, 200, (32,))
        x[rows].sum()
        y[:32].mean()

    assert TOGETHER not in outcomes(program)


class Store:
    """A ring of transitions of several environments; `shift` moves the rows of the actions, `fill` counts the rows."""

    def __init__(self, width: int) -> None:
        self.width, self.at = width, 640
        self.states, self.actions, self.rewards = torch.randn(1024, 4), torch.randn(1024, 2), torch.randn(1024)

    def step(self, shift: int, fill: int) -> None:
        rows = (self.at + torch.arange(self.width)) % 1024
        self.states[rows], self.actions[rows] = torch.randn(self.width, 4), torch.randn(self.width, 2)
        self.rewards[rows] = torch.randn(self.width)
        drawn = torch.randint(0, fill, (64,))
        value = self.states[drawn].sum(1) + self.actions[drawn + shift].sum(1)
        (value - self.rewards[drawn]).square().mean()


@pytest.mark.parametrize(("shift", "outcome"), [(0, "held"), (-1, "broken"), (3, "broken"), (-8, "none"), (16, "none")])
def test_a_column_is_told_that_is_read_at_rows_of_another_environment(shift: int, outcome: str) -> None:
    assert outcomes(lambda: Store(8).step(shift, 640)).get(BESIDE, "none") == outcome


def test_of_one_environment_the_row_before_is_the_time_before() -> None:
    assert BESIDE not in outcomes(lambda: Store(1).step(-1, 640))


@pytest.mark.parametrize(("fill", "outcome"), [(648, "held"), (400, "held"), (8, "broken"), (40, "broken")])
def test_draws_that_stay_among_the_first_rows_of_a_growing_store_are_told(fill: int, outcome: str) -> None:
    assert outcomes(lambda: Store(8).step(0, fill)).get(REACH, "none") == outcome


def test_the_newest_rows_may_be_drawn_alone() -> None:
    store = Store(8)

    def program() -> None:
        store.states[640:648] = 1.0
        store.states[torch.randint(600, 648, (64,))].sum()

    assert outcomes(program).get(REACH) == "held"


def test_parameters_are_no_data() -> None:
    table, y = torch.randn(200, 5, requires_grad=True), torch.randn(200)

    def program() -> None:
        (table[torch.randint(0, 200, (32,))].sum(1) - y[:32]).square().mean()

    assert outcomes(program) == {}


TRAINING = """
x, y = torch.randn(300, 4), torch.randn(300)
model = net(4, 16, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(30):
    rows = torch.randperm(300)[:32]
    loss = functional.mse_loss(model(x[rows]).squeeze(1), y[{rows}])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("rows", "outcome"), [(":32", "broken"), ("rows", "held")])
def test_a_training_whose_labels_are_of_other_rows_is_told_so(run_alike: Any, rows: str, outcome: str) -> None:
    store, found, _ = run_alike(TRAINING.format(rows=rows))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get(TOGETHER) == outcome
    named = [one for one in store.findings(found.id) if one.cause == "uninformative_labels" and one.severity != "info"]
    assert bool(named) == (outcome == "broken")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (lambda n, batch: torch.randint(0, batch, (batch,)), "broken"),
        (lambda n, batch: torch.randint(0, n, (batch,)), "held"),
        (lambda n, batch: torch.randint(0, 10, (batch,)), "held"),  # of the few that have labels
        (lambda n, batch: torch.arange(batch), "none"),  # the first batch of a pass
    ],
)
def test_a_range_that_is_the_size_of_the_batch(rows, expected):
    data, weights = torch.randn(600, 3), torch.randn(3, requires_grad=True)
    assert outcomes(lambda: (data[rows(600, 64)] @ weights).sum()).get(WHOLE, "none") == expected


def test_a_store_that_is_being_filled_says_nothing_of_its_range():
    data, weights = torch.randn(600, 3), torch.randn(3, requires_grad=True)

    def program() -> None:
        data[64] = torch.randn(3)
        (data[torch.randint(0, 64, (64,))] @ weights).sum()

    assert WHOLE not in outcomes(program)
