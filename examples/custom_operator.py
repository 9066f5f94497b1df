"""An operator of one's own: a C++ kernel with a derivative, used in a training step.

The kernel is a smooth, saturating activation, `x / sqrt(1 + x**2)`; its derivative is `(1 + x**2) ** -1.5`.
"""

import tempfile
from pathlib import Path

import numpy as np
from mindscope.framework import Tensor, nn, ops, optim, random, value_and_grad
from mindscope.framework.custom import CustomOpBuilder

KERNEL = """
#include "mindscope.h"

MINDSCOPE_KERNEL(isru) {
    const float* x = arrays[0].as<float>();
    float* y = arrays[1].as<float>();
    for (long long i = 0; i < arrays[0].size(); ++i) y[i] = x[i] / std::sqrt(1.0f + x[i] * x[i]);
    return 0;
}
"""


def isru_gradient(g: Tensor, _: None, x: Tensor) -> Tensor:
    root = 1.0 / ops.sqrt(1.0 + x * x)
    return g * root * root * root


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "isru.cpp"
        source.write_text(KERNEL)
        library = CustomOpBuilder("activations", source, cache=folder).load()
        isru = library.operator("isru", infer=lambda x: x, vjp=(isru_gradient,))

        random.set_seed(0)
        hidden, head = nn.Dense(2, 16), nn.Dense(16, 1)
        net = nn.SequentialCell(hidden, head)
        points = np.random.default_rng(0).normal(size=(256, 2)).astype(np.float32)
        x, target = Tensor(points), Tensor(np.sin(points[:, :1] * points[:, 1:]))

        def loss(x: Tensor) -> Tensor:
            return ops.mse(head(isru(hidden(x))), target)

        step = value_and_grad(loss, None, net.trainable_params())
        optimizer = optim.Adam(net.trainable_params(), learning_rate=0.02)
        losses = []
        for _ in range(200):
            value, gradients = step(x)
            optimizer(gradients)
            losses.append(float(value))
        print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
        assert losses[-1] < 0.5 * losses[0]


if __name__ == "__main__":
    main()
