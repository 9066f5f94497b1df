"""Segment discs and squares in noisy pictures with a U-Net, watched from the inside.

python examples/unet.py [STORE] [STEPS]
mindscope dashboard STORE
"""

import sys
from collections.abc import Iterator

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, nn, ops, random
from mindscope.framework.data import GeneratorDataset
from mindscope.framework.optim import OneCycle
from mindscope.framework.train import TrainStep

SIZE, CLASSES = 32, 3  # background, disc, square


class Twice(nn.Cell):
    """Two convolutions, each normalized and rectified."""

    def __init__(self, channels: int, width: int, key: Key) -> None:
        super().__init__()
        first, second = random.split(key)
        self.first = nn.Conv2d(channels, width, 3, has_bias=False, key=first)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, has_bias=False, key=second)
        self.norm2 = nn.BatchNorm2d(width)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the size of the input."""
        x = ops.relu(self.norm1(self.first(x)))
        return ops.relu(self.norm2(self.second(x)))


class UNet(nn.Cell):
    """Down to a quarter of the size and up again; every level hands its detail across.

    Reference:
        Ronneberger et al. 2015, arXiv:1505.04597.
    """

    def __init__(self, width: int, key: Key) -> None:
        super().__init__()
        keys = random.split(key, 8)
        self.down1 = Twice(1, width, keys[0])
        self.down2 = Twice(width, 2 * width, keys[1])
        self.bottom = Twice(2 * width, 4 * width, keys[2])
        self.up2 = nn.Conv2dTranspose(4 * width, 2 * width, 2, 2, key=keys[3])
        self.merge2 = Twice(4 * width, 2 * width, keys[4])
        self.up1 = nn.Conv2dTranspose(2 * width, width, 2, 2, key=keys[5])
        self.merge1 = Twice(2 * width, width, keys[6])
        self.head = nn.Conv2d(width, CLASSES, 1, key=keys[7])
        self.pool = nn.MaxPool2d(2)

    def construct(self, x: Tensor) -> Tensor:
        """Logits `(batch, classes, height, width)` of pictures `(batch, 1, height, width)`."""
        fine = self.down1(x)
        coarse = self.down2(self.pool(fine))
        x = self.bottom(self.pool(coarse))
        x = self.merge2(ops.concat([self.up2(x), coarse], 1))
        x = self.merge1(ops.concat([self.up1(x), fine], 1))
        return self.head(x)


def pictures(epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pictures and their labels without end, others for every epoch."""
    generator = np.random.default_rng([7, epoch])
    rows, columns = np.mgrid[:SIZE, :SIZE]
    while True:
        labels = np.zeros((SIZE, SIZE), np.int64)
        for shape in generator.permutation([1, 2]):
            y, x = generator.integers(7, SIZE - 7, 2)
            reach = generator.integers(4, 8)
            inside = (rows - y) ** 2 + (columns - x) ** 2 <= reach**2
            if shape == 2:
                inside = np.maximum(abs(rows - y), abs(columns - x)) <= reach * 0.8
            labels[inside] = shape
        shade = np.array([0.0, 1.0, 0.9])[labels] + generator.normal(0, 0.3, labels.shape)
        yield shade[None].astype(np.float32), labels


def overlap(network: nn.Cell, x: np.ndarray, labels: np.ndarray) -> float:
    """Mean over the shapes of intersection over union."""
    found = network.set_train(False)(Tensor(x)).numpy().argmax(1)
    shares = [((found == c) & (labels == c)).sum() / ((found == c) | (labels == c)).sum() for c in (1, 2)]
    return float(np.mean(shares))


def main(store: str, steps: int) -> None:
    data = GeneratorDataset(pictures).batch(8).prefetch(2)
    network = UNet(8, Key(0))
    optimizer = nn.AdamW(network.trainable_params(), OneCycle(1e-2, steps))
    step = TrainStep(network, nn.CrossEntropyLoss(axis=1), optimizer, clip_norm=1.0)
    with ms.watch(network, optimizer, store=store, run="unet") as monitor:
        losses = [float(step(*batch)) for batch in data.take(steps).epoch(0)]
    x, labels = next(data.epoch(1))
    first, last = np.mean(losses[:5]), np.mean(losses[-5:])
    print(f"unet: loss {first:.3f} -> {last:.3f}, overlap {overlap(network, x, labels):.2f}, run {monitor.run.id}")
    if not last < 0.5 * first:
        raise SystemExit("the loss did not fall")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/", int(sys.argv[2]) if len(sys.argv) > 2 else 100)
