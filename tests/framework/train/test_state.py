"""A resumed run is the run that was not stopped, bit for bit."""

from itertools import islice

import numpy as np
import pytest
from mindscope.framework import Key, set_seed
from mindscope.framework.data import ArrayDataset, Loader
from mindscope.framework.nn import (
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dense,
    Dropout,
    Flatten,
    MaxPool2d,
    ReLU,
    SequentialCell,
)
from mindscope.framework.optim import SGD, Adam, CosineDecay, DynamicLossScaler
from mindscope.framework.serialization import CheckpointError, save_checkpoint
from mindscope.framework.train import TrainStep, load_training_state, save_training_state


class Training:
    """A CNN with all that has a state: slots, schedule, running statistics, dropout, loss scale, data."""

    def __init__(self, optimizer=Adam, *, width=4, with_scaler=True):
        self.network = SequentialCell(
            Conv2d(1, width, 3, key=Key(0)),
            BatchNorm2d(width),
            ReLU(),
            MaxPool2d(2),
            Flatten(),
            Dropout(0.3),
            Dense(width * 4, 3, key=Key(1)),
        )
        self.optimizer = optimizer(self.network.trainable_params(), CosineDecay(0.05, 20, warmup_steps=4))
        self.scaler = DynamicLossScaler(scale_value=64.0, scale_window=3) if with_scaler else None
        generator = np.random.default_rng(0)
        images, labels = generator.standard_normal((20, 1, 4, 4)).astype(np.float32), generator.integers(0, 3, 20)
        self.loader = Loader(ArrayDataset(images, labels).shuffle(5).batch(6).prefetch(2))
        self.step = TrainStep(self.network, CrossEntropyLoss(), self.optimizer, self.scaler, clip_norm=1.0)

    def run(self, steps):
        return [float(self.step(x, y)) for x, y in islice(self.loader.forever(), steps)]

    def save(self, path):
        save_training_state(path, self.network, self.optimizer, scaler=self.scaler, loader=self.loader)

    def load(self, path):
        load_training_state(path, self.network, self.optimizer, scaler=self.scaler, loader=self.loader)


@pytest.mark.parametrize("stop", [1, 3, 4, 7])
def test_a_resumed_run_repeats_the_losses_and_ends_at_the_same_weights(tmp_path, stop):
    set_seed(11)
    whole = Training()
    whole.run(stop)
    whole.save(tmp_path / "state")
    expected = whole.run(8)
    set_seed(99)
    resumed = Training()
    resumed.load(tmp_path / "state")
    assert resumed.run(8) == expected
    for a, b in zip(whole.network.get_parameters(), resumed.network.get_parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert resumed.scaler.loss_scale == whole.scaler.loss_scale
    assert resumed.optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_a_state_of_another_setting_is_refused_and_changes_nothing(tmp_path):
    saved = Training()
    saved.run(2)
    saved.save(tmp_path / "state")
    for other, words in (
        (Training(width=5), "exp_avg of '0.weight' has shape"),
        (Training(SGD), "it was saved by Adam"),
        (Training(with_scaler=False), "holds one for the scaler, but none was given"),
    ):
        before = [p.asnumpy() for p in other.network.get_parameters()]
        with pytest.raises(CheckpointError, match=words):
            other.load(tmp_path / "state")
        assert all(np.array_equal(a, p.numpy()) for a, p in zip(before, other.network.get_parameters(), strict=True))
        assert other.optimizer.step_count == 0


def test_a_plain_checkpoint_is_no_training_state(tmp_path):
    training = Training()
    save_checkpoint(training.network, tmp_path / "net")
    with pytest.raises(CheckpointError, match=r"is no training state; load it with load_checkpoint\(\)"):
        training.load(tmp_path / "net")


def test_a_damaged_state_and_a_missing_one_are_told_of(tmp_path):
    training = Training()
    training.save(tmp_path / "state")
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-3])
    with pytest.raises(CheckpointError, match="cut short or damaged"):
        training.load(tmp_path / "state")
    with pytest.raises(FileNotFoundError):
        training.load(tmp_path / "none")
