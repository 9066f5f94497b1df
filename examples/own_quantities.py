"""Record what only you care about: one decorated function each, beside everything else, in the same pages.

python examples/own_quantities.py [STORE]
mindscope dashboard STORE
"""

import sys

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, nn, ops, value_and_grad
from mindscope.probe import Seen
from sklearn.datasets import load_digits


@ms.quantity("sparsity", at="forward", sites="1")
def sparsity(activation: Tensor) -> float:
    """Share of the units that are off: `quantity/sparsity/value` of each of the sites."""
    return float((activation.numpy() == 0).mean())


class Distance:
    """How far the weights have come from where they began."""

    def __init__(self) -> None:
        self.start: dict[str, np.ndarray] = {}

    def __call__(self, step: Seen) -> float:
        """One number a step, the scalar `distance`."""
        for site, weight in step.weights.items():
            self.start.setdefault(site, weight.copy())
        return float(np.sqrt(sum(np.square(weight - self.start[site]).sum() for site, weight in step.weights.items())))


ms.quantity("distance")(Distance())  # what remembers is an object


def main(store: str) -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)
    network = nn.SequentialCell(nn.Dense(64, 64, key=Key(0)), nn.ReLU(), nn.Dense(64, 10, key=Key(1))).set_train()
    optimizer = nn.Adam(network.trainable_params(), learning_rate=3e-3)
    gradients_of = value_and_grad(lambda x, y: ops.cross_entropy(network(x), y), None, network.trainable_params())
    config = {"subjects": {"sparsity": {"every": 10}, "weight/spectrum": {"every": 10}}, "statistics": ["kurtosis"]}

    with ms.watch(network, optimizer, store=store, config=config, run="own quantities") as monitor:
        for step in range(100):
            batch = np.arange(64) + 64 * step
            _, gradients = gradients_of(Tensor(images[batch % len(images)]), Tensor(labels[batch % len(images)]))
            optimizer(gradients)

    with ms.open_store(store) as reading:
        for site, metric in (("1", "quantity/sparsity/value"), ("", "scalar/distance")):
            series = reading.series(monitor.run.id, site, metric, limit=100)
            print(f"{metric}: {len(series.values)} values, the last {series.values[-1]:.2f}")
        spectrum = reading.series(monitor.run.id, "0.weight", "weight/spectrum/stable_rank", limit=100)
        print(f"stable rank of 0.weight: {spectrum.values[0]:.1f}, then {spectrum.values[-1]:.1f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
