"""Robust overfitting, from the steps of a defence through the monitor to a finding in the run."""

import mindscope as ms
import numpy as np
import pytest
from mindscope.armour import PGD, wrap
from mindscope.armour.defences import Adversarial, DefendedTraining, Distillation, fast, robust_accuracy
from mindscope.framework import nn, set_seed

from tests.armour.defences.test_defences import digits


def watched_training(tmp_path, wrong, epochs):
    """Adversarial training on a few digits, a share of which has the wrong label; the causes that were found."""
    x, y, held_x, held_y = digits()
    x, y, held_x, held_y = x[:150], y[:150].copy(), held_x[:100], held_y[:100]
    generator = np.random.default_rng(0)
    y[: int(150 * wrong)] = generator.integers(0, 10, int(150 * wrong))
    set_seed(0)
    network = nn.SequentialCell(nn.Dense(64, 100), nn.ReLU(), nn.Dense(100, 10)).set_train()
    optimizer = nn.Adam(network.trainable_params(), 0.02)
    training = DefendedTraining(network, optimizer, Adversarial(fast(0.05)))
    with ms.watch(network, optimizer, store=tmp_path, run="robust") as monitor:
        for _ in range(epochs):
            order = generator.permutation(150)
            for rows in np.split(order, 3):
                step = training.step(x[rows], y[rows])
                monitor.log(step.scalars)
            left = robust_accuracy(training.model, PGD(steps=4), held_x, held_y, 0.05)
            monitor.log({"robust/validation_accuracy": left})
    with ms.open_store(tmp_path) as store:
        run = store.find_run("robust").id
        searches = store.series(run, "", "scalar/time/evaluation_seconds").values
        assert np.nanmin(searches) > 0  # the search for adversarial inputs is no waiting for data
        return {finding.cause: finding for finding in store.findings(run)}, training


def test_a_model_that_learns_its_wrong_labels_raises_the_alarm(tmp_path):
    found, training = watched_training(tmp_path, wrong=0.7, epochs=25)
    finding = found["robust_overfitting"]
    assert finding.evidence["robust_accuracy"] < finding.evidence["best_robust_accuracy"] - 0.03
    assert training.steps == 75
    assert "monitor_fault" not in found  # the search for adversarial inputs is no part of what the monitor sees


def test_a_model_that_goes_on_learning_raises_none(tmp_path):
    found, _ = watched_training(tmp_path, wrong=0.0, epochs=6)
    assert "robust_overfitting" not in found


def test_a_recipe_that_attacks_nothing_claims_no_robust_accuracy():
    network = nn.SequentialCell(nn.Dense(64, 10))
    teacher = wrap(nn.SequentialCell(nn.Dense(64, 10)).set_train(False))
    training = DefendedTraining(network, nn.SGD(network.trainable_params(), 0.1), Distillation(teacher))
    x, y, *_ = digits()
    step = training.step(x[:20], y[:20])
    assert np.isnan(step.robust_accuracy)
    assert step.scalars == {"loss": pytest.approx(step.loss)}
