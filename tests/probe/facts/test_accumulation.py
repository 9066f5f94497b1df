"""How many backward passes make a step, what they are divided by, and what the labels are."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
functional = torch.nn.functional


def told(step, net, optimizer, steps=3, config=None):
    """The data of every `accumulation` event, the records, and the losses."""
    store = open_store("memory:")
    with watch(net, optimizer, store=store, config=config) as monitor:
        losses = [step(number) for number in range(steps)]
    records = list(store.replay(monitor.run.id))
    return [e.data for record in records for e in record.events if e.kind == "accumulation"], records, losses


def pytorch(micro_batches, scale, *, reduction="mean", extra=0.0, labels=lambda number: torch.arange(8) % 3):
    """(step, net, optimizer) of a training that accumulates."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step(number):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            logits = net(torch.randn(8, 4))
            loss = functional.cross_entropy(logits, labels(number), reduction=reduction) * scale
            if extra:
                loss = loss + extra * functional.mse_loss(logits, torch.zeros(8, 3))
            loss.backward()
        optimizer.step()
        return loss.item().hex()

    return step, net, optimizer


def engine(micro_batches, scale):
    net = nn.SequentialCell(nn.Dense(4, 3, key=Key(0))).set_train()
    optimizer, rng = nn.SGD(net.trainable_params(), 0.1), np.random.default_rng(0)

    def step(_number):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            logits = net(Tensor(rng.normal(size=(8, 4)).astype(np.float32)))
            loss = ops.cross_entropy(logits, Tensor(np.arange(8) % 3)) * scale
            loss.backward()
        optimizer.step()
        return float(loss).hex()

    return step, net, optimizer


@pytest.mark.parametrize("training", [pytorch, engine])
@pytest.mark.parametrize(("micro_batches", "scale"), [(1, 1.0), (4, 0.25), (4, 1.0), (2, 0.25)])
def test_passes_and_their_factor_are_told_once_and_losses_are_untouched(training, micro_batches, scale):
    events, _, losses = told(*training(micro_batches, scale))
    step, *_ = training(micro_batches, scale)
    assert losses == [step(number) for number in range(3)]
    (event,) = events
    assert (event["micro_batches"], event["declared"]) == (micro_batches, 1)
    assert event["factor"] == pytest.approx(scale)


def test_a_change_in_the_number_of_passes_is_told():
    step, net, optimizer = pytorch(1, 0.5)

    def changing(number):
        if number < 2:
            return step(number)
        for _ in range(2):
            loss = functional.cross_entropy(net(torch.randn(8, 4)), torch.arange(8) % 3) * 0.5
            loss.backward()
        optimizer.step()
        return loss.item()

    events, *_ = told(changing, net, optimizer)
    assert [event["micro_batches"] for event in events] == [1, 2]


def test_of_several_losses_no_factor_is_told_and_a_sum_is_called_one():
    ((event,), _, _) = told(*pytorch(1, 1.0, extra=0.1), steps=2)
    assert (event["factor"], event["micro_batches"]) == (None, 1)
    ((event,), _, _) = told(*pytorch(1, 1.0, reduction="sum"), steps=2)
    assert event["reduction"] == "sum"


def test_a_scaled_loss_is_compared_without_its_scale():
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer, scaler = torch.optim.SGD(net.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(_number):
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(torch.randn(8, 4)), torch.arange(8) % 3) / 2
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    ((event,), _, _) = told(step, net, optimizer)
    assert event["factor"] == pytest.approx(0.5)


def test_labels_are_counted_over_the_calls_that_are_looked_at():
    def labels(number):
        return torch.zeros(8, dtype=torch.long) if number < 1 else torch.arange(8) % 2

    _, records, _ = told(*pytorch(1, 1.0, labels=labels), steps=3)
    entropy = [record.scalars["target/entropy"] for record in records]
    shares = np.array([[1.0, 0.0], [12 / 16, 4 / 16], [16 / 24, 8 / 24]])
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = -np.where(shares > 0, shares * np.log(shares), 0.0).sum(1)
    assert entropy == pytest.approx(expected)
    assert [record.scalars["target/classes"] for record in records] == [1.0, 2.0, 2.0]
    checksums = [record.scalars["target/checksum"] for record in records]
    assert checksums[0] != checksums[1] == checksums[2]


def test_labels_of_the_engine_are_counted_too():
    _, records, _ = told(*engine(1, 1.0), steps=2)
    shares = np.array([3, 3, 2]) / 8
    assert records[1].scalars["target/entropy"] == pytest.approx(-(shares * np.log(shares)).sum())
