"""Train a small network, then measure how accurate it stays under attack, beside its training in the same store.

python examples/attack_a_model.py [STORE]
mindscope dashboard STORE        # the page "Robustness"
"""

import sys

import mindscope as ms
import numpy as np
from mindscope import armour
from mindscope.framework import Key, Tensor, nn, ops
from sklearn.datasets import load_digits


def main(url: str) -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)  # the box that perturbations must stay in: 0 to 1
    network = nn.SequentialCell(nn.Dense(64, 64, key=Key(1)), nn.ReLU(), nn.Dense(64, 10, key=Key(2)))
    optimizer = nn.Adam(network.trainable_params(), learning_rate=1e-2)
    generator = np.random.default_rng(0)
    network.set_train()

    with ms.watch(network, optimizer, store=url, run="digits"):
        for _ in range(100):
            batch = generator.integers(0, 1500, 64)
            optimizer.zero_grad()
            ops.cross_entropy(network(Tensor(images[batch])), Tensor(labels[batch])).backward()
            optimizer.step()

    model = armour.wrap(network.set_train(False), bounds=(0, 1))
    x, y = images[1500:], labels[1500:]
    with ms.open_store(url) as store:
        evaluation = armour.evaluate(
            model,
            x,
            y,
            epsilons=[0.02, 0.05, 0.1, 0.2],
            attacks=["fgsm", armour.PGD(steps=20, restarts=2)],
            store=store,
            parent="digits",
            name="digits under attack",
        )
    print(evaluation.table())

    result = armour.PGD(norm="l2")(model, x, y, epsilons=[0.5])  # one attack by itself: the examples, not only numbers
    fallen = np.flatnonzero(result.success[0])
    if len(fallen):
        one = fallen[0]
        seen = model.logits(result.adversarials[0][one : one + 1]).argmax()
        print(f"image {one}, a {y[one]}, is taken for a {seen} when moved by {result.distances[0, one]:.2f} in l2")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
