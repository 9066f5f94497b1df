"""A model is trained, attacked, and what became of it stands in the store beside its training."""

import json

import mindscope as ms
import numpy as np
import pytest
from mindscope.armour import WORST_CASE, evaluate, wrap
from mindscope.framework import Key, Tensor, nn, ops

EPSILONS = (0.05, 0.1, 0.2)


class Network(nn.Cell):
    """A convolution and a linear layer."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3, key=Key(1))
        self.output = nn.Dense(512, 10, key=Key(2))

    def construct(self, x):
        return self.output(ops.relu(self.convolution(x)).reshape(x.shape[0], 512))


def digits():
    """Images `(n, 1, 8, 8)` of the unit box, their classes."""
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), classes.astype(np.int64)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """URL of a store with a training and its evaluation, and the evaluation."""
    url = str(tmp_path_factory.mktemp("attacked") / "runs")
    images, classes = digits()
    network = Network().set_train()
    optimizer = nn.Adam(network.trainable_params(), learning_rate=3e-3)
    generator = np.random.default_rng(0)
    with ms.watch(network, optimizer, store=url, run="digits", config={"every": 10}):
        for _ in range(100):
            batch = generator.integers(0, 1500, 64)
            optimizer.zero_grad()
            ops.cross_entropy(network(Tensor(images[batch])), Tensor(classes[batch])).backward()
            optimizer.step()
    network.set_train(False)
    with ms.open_store(url) as store:
        evaluation = evaluate(
            wrap(network), images[1500:], classes[1500:], EPSILONS, store=store, parent="digits", name="digits attacked"
        )
    return url, evaluation


def test_accuracy_falls_with_the_budget_and_pgd_is_the_stronger_attack(attacked):
    _, evaluation = attacked
    assert evaluation.clean_accuracy > 0.85
    for attack in evaluation.attacks:
        accuracy = list(evaluation.accuracy(attack).values())
        assert accuracy[0] == evaluation.clean_accuracy
        assert accuracy == sorted(accuracy, reverse=True)
        assert accuracy[-1] < 0.5
    fgsm, pgd, worst = (evaluation.accuracy(name) for name in ("fgsm", "pgd", WORST_CASE))
    for epsilon in EPSILONS:
        assert worst[epsilon] <= pgd[epsilon] <= fgsm[epsilon] + 0.01


def test_outcomes_are_found_beside_the_training(attacked):
    url, evaluation = attacked
    with ms.open_store(url) as store:
        training, stored = store.find_run("digits"), store.find_run(evaluation.run)
        assert (stored.kind, stored.parent, stored.framework, stored.state) == (
            "evaluation",
            training.id,
            "engine",
            "finished",
        )
        outcomes = {(outcome.attack, outcome.epsilon): outcome.accuracy for outcome in store.outcomes(stored.id)}
    assert outcomes == {(outcome.attack, outcome.epsilon): outcome.accuracy for outcome in evaluation.outcomes}
    assert len(outcomes) == 4 * 4


def test_the_command_evaluates_a_model_of_a_file(tmp_path, command):
    images, classes = digits()
    np.savez(tmp_path / "digits.npz", x=images[:50], y=classes[:50])
    (tmp_path / "network.py").write_text(
        "from mindscope.framework import Key, nn\n"
        "def make():\n"
        "    return nn.SequentialCell(nn.Flatten(), nn.Dense(64, 10, key=Key(0))).set_train(False)\n"
    )
    told = command(
        "armour",
        "evaluate",
        f"{tmp_path / 'network.py'}:make",
        *("--data", tmp_path / "digits.npz", "--epsilon", 0.1, "--store", tmp_path / "runs", "--json"),
    )
    assert told.code == 0
    document = json.loads(told.out)
    assert document["samples"] == 50
    with ms.open_store(str(tmp_path / "runs")) as store:
        assert len(store.outcomes(document["run"])) == 8
