"""Train a network of digits so that it withstands attacks, and watch whether its robustness goes on growing.

python examples/defend_a_model.py [STORE]
mindscope diagnose TRADES --store STORE       # reports robust overfitting, if there is any
"""

import sys

import mindscope as ms
import numpy as np
from mindscope import armour
from mindscope.armour.defences import Adversarial, DefendedTraining, Inner, Trades, fast, robust_accuracy
from mindscope.framework import Key, nn
from sklearn.datasets import load_digits

EPSILON = 0.15


def main(url: str) -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)  # the box that perturbations must stay in: 0 to 1
    order = np.random.default_rng(0).permutation(len(images))
    training, held_x, held_y = order[:1400], images[order[1400:1600]], labels[order[1400:1600]]

    recipes = {
        "hardly defended": Adversarial(fast(0.001)),
        "adversarial training": Adversarial(fast(EPSILON)),
        "TRADES": Trades(Inner(EPSILON, steps=3, step_size=0.5)),
    }
    for name, recipe in recipes.items():
        network = nn.SequentialCell(nn.Dense(64, 64, key=Key(1)), nn.ReLU(), nn.Dense(64, 10, key=Key(2))).set_train()
        optimizer = nn.Adam(network.trainable_params(), learning_rate=1e-2)
        defended = DefendedTraining(network, optimizer, recipe, weight_perturbation=0.002)
        with ms.watch(network, optimizer, store=url, run=name) as monitor:
            for epoch in range(5):
                for batch in np.array_split(np.random.default_rng(epoch).permutation(training), 14):
                    step = defended.step(images[batch], labels[batch])
                    monitor.log(step.scalars)
                left = robust_accuracy(defended.model, armour.PGD(steps=10), held_x, held_y, EPSILON)
                monitor.log({"robust/validation_accuracy": left})

        model = armour.wrap(network.set_train(False))
        clean, attacked = (robust_accuracy(model, armour.PGD(), held_x, held_y, epsilon) for epsilon in (0.0, EPSILON))
        print(f"{name}: accuracy {clean:.3f}, within {EPSILON} of the input {attacked:.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
