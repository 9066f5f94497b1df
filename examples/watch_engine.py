"""Watch a training on mindscope's own engine, which needs neither PyTorch nor MindSpore.

python examples/watch_engine.py [STORE]
mindscope dashboard STORE
"""

import sys
from itertools import islice

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, nn, ops, random, value_and_grad
from mindscope.framework.data import ArrayDataset, Loader
from mindscope.framework.optim import CosineDecay
from sklearn.datasets import load_digits


class Network(nn.Cell):
    """Two convolutions and a linear layer; every child's name becomes a site."""

    def __init__(self, key: Key) -> None:
        super().__init__()
        first, second, third = random.split(key, 3)
        self.near = nn.Conv2d(1, 16, 3, key=first)
        self.wide = nn.Conv2d(16, 16, 3, key=second)
        self.output = nn.Dense(256, 10, key=third)

    def construct(self, x: Tensor) -> Tensor:
        """Logits `(n, 10)` of images `(n, 1, 8, 8)`."""
        x = ops.max_pool2d(ops.relu(self.near(x)), 2)
        x = ops.relu(self.wide(x))
        return self.output(x.reshape(x.shape[0], 256))


def main(store: str) -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    batches = Loader(ArrayDataset(images, labels).shuffle(seed=0).batch(64, drop_remainder=True).prefetch(2))

    network = Network(Key(0)).set_train()
    optimizer = nn.Adam(network.trainable_params(), learning_rate=CosineDecay(3e-3, 100))
    loss_and_gradients = value_and_grad(lambda x, y: ops.cross_entropy(network(x), y), None, network.trainable_params())

    with ms.watch(network, optimizer, store=store, run="digits") as monitor:
        for x, y in islice(batches.forever(), 100):
            _, gradients = loss_and_gradients(Tensor(x), Tensor(y))  # the monitor finds the loss by itself
            optimizer(gradients)  # closes the step

    print(f"{monitor.run.name}: {monitor.step} steps in {store}, {len(monitor.findings)} findings")
    for finding in monitor.findings:
        print(f"  {finding.severity}: {finding.cause} at {finding.site} since step {finding.first_step}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
