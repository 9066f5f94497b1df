"""Search rate and width of a small network; every trial is a run, and findings end those that go wrong.

python examples/search.py [STORE]
mindscope lineage STORE --explain objective
"""

import logging
import sys

import mindscope as ms
import numpy as np
import optuna
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.insight import tune
from mindscope.insight.lineage import importance, lineage
from mindscope.insight.tune import Attempt
from sklearn.datasets import load_digits


def main(url: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("mindscope").setLevel(logging.ERROR)  # findings end trials here; nobody needs to read each
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)

    with ms.open_store(url) as store:

        def train(attempt: Attempt) -> float:
            rate = attempt.trial.suggest_float("lr", 1e-4, 10.0, log=True)
            width = attempt.trial.suggest_int("width", 8, 64, log=True)
            network = nn.SequentialCell(nn.Dense(64, width, key=Key(1)), nn.ReLU(), nn.Dense(width, 10, key=Key(2)))
            optimizer = nn.SGD(network.trainable_params(), learning_rate=rate, momentum=0.9)
            network.set_train()
            generator = np.random.default_rng(0)
            with ms.watch(network, optimizer, store=store, run=attempt.name, tags=attempt.tags) as monitor:
                for step in range(60):
                    batch = generator.integers(0, 1500, 64)
                    optimizer.zero_grad()
                    loss = ops.cross_entropy(network(Tensor(images[batch])), Tensor(labels[batch]))
                    loss.backward()
                    optimizer.step()
                    if step % 20 == 19:
                        monitor.flush()  # so that findings of all steps are there
                        if attempt.report(step, float(loss.numpy()), monitor.findings):
                            break
            network.set_train(False)
            return float(ops.cross_entropy(network(Tensor(images[1500:])), Tensor(labels[1500:])).numpy())

        found = tune.search(train, store, trials=9, study="digits")
        for trial in found.trials:
            print(f"{trial.number:2} {trial.state:<8} {trial.value:8.3f} {dict(trial.parameters)} {trial.pruned_by}")
        best = found.best
        assert best is not None
        print(f"best: {best.value:.3f} with {dict(best.parameters)}")
        for one in importance(lineage(store), "objective", fields=["lr", "width"]):
            print(f"{one.field} explains {one.share:.0%} of the objective (p = {one.p_value:.3f})")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
