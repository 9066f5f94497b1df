"""The run is never harmed: a training gives the same losses and the same weights, bit for bit, watched or not."""

from contextlib import nullcontext

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops, value_and_grad

STEPS = 12
GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.standard_normal((STEPS, 16, 1, 8, 8)).astype(np.float32)
LABELS = GENERATOR.integers(0, 10, (STEPS, 16))
SPARSE = {"every": 3}


def watched(model, optimizer, store, config):
    """A monitor, or nothing where there is no store."""
    return nullcontext() if store is None else ms.watch(model, optimizer, store=store, config=config)


def train_torch(store, config):
    """Losses and final weights of a torch network with dropout and batch normalization."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(144, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    with watched(model, optimizer, store, config):
        for x, y in zip(INPUTS, LABELS, strict=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses, [value.numpy().copy() for value in model.state_dict().values()]


def train_engine(store, config):
    """Losses and final weights of an engine network, trained in the way of MindSpore."""
    model = nn.SequentialCell(nn.Dense(64, 32, key=Key(1)), nn.ReLU(), nn.Dense(32, 10, key=Key(2)))
    model.set_train()
    optimizer = nn.Adam(model.trainable_params(), learning_rate=0.01)
    step = value_and_grad(
        lambda x, y: ops.cross_entropy(model(x.reshape(len(y), 64)), y), None, model.trainable_params()
    )
    losses = []
    with watched(model, optimizer, store, config):
        for x, y in zip(INPUTS, LABELS, strict=True):
            loss, gradients = step(Tensor(x), Tensor(y))
            optimizer(gradients)
            losses.append(loss.item())
    return losses, [parameter.asnumpy() for parameter in model.get_parameters()]


@pytest.mark.parametrize("config", [None, SPARSE], ids=["everything", "every third step"])
@pytest.mark.parametrize("train", [train_torch, train_engine], ids=["torch", "engine"])
def test_a_watched_training_is_the_same_training(train, config, tmp_path):
    losses, weights = train(None, None)
    watched_losses, watched_weights = train(str(tmp_path / "runs"), config)
    assert watched_losses == losses
    assert len(set(losses)) == STEPS
    for ours, theirs in zip(weights, watched_weights, strict=True):
        assert ours.tobytes() == theirs.tobytes()
    with ms.open_store(str(tmp_path / "runs")) as store:
        recorded = store.series(store.find_run("latest").id, "", "scalar/loss")
        np.testing.assert_array_equal(recorded.values.astype(np.float32), np.float32(losses)[recorded.steps])
        assert len(recorded.steps) >= STEPS // 3
