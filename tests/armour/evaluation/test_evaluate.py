import base64
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mindscope.armour import APGDT, FGSM, PGD, WORST_CASE, InvalidInput, UnknownAttack, evaluate, make_attack
from mindscope.storage import MemoryStore, RunNotFound, StoreUnavailable, open_store

from tests.armour.networks import ClosedForm, data, model, perceptron

NETWORK = perceptron()
X, Y = data(NETWORK, 120)
Y[:12] = (Y[:12] + 1) % 4  # wrong without an attack
EPSILONS = [0.1, 0.05, 0.3]


def lost(attack, epsilon):
    """Which samples one attack defeats, by a call of its own."""
    result = attack(model(NETWORK), X, Y, epsilons=[epsilon])
    return result.success[0] | result.already


def test_accuracy_is_counted_over_all_samples_and_starts_clean():
    evaluation = evaluate(model(NETWORK), X, Y, EPSILONS)
    assert evaluation.clean_accuracy == 0.9
    assert evaluation.epsilons == (0.0, 0.05, 0.1, 0.3)
    assert evaluation.attacks == ("fgsm", "pgd", "apgd-t", WORST_CASE)
    for name, attack in (("fgsm", FGSM()), ("pgd", PGD())):
        expected = {0.0: 0.9} | {epsilon: np.mean(~lost(attack, epsilon)) for epsilon in EPSILONS}
        assert evaluation.accuracy(name) == expected


def test_the_worst_case_counts_what_any_attack_defeats_within_the_budget_or_a_smaller_one():
    evaluation = evaluate(model(NETWORK), X, Y, EPSILONS)
    so_far = np.zeros(len(Y), bool)
    for epsilon in sorted(EPSILONS):
        so_far |= lost(FGSM(), epsilon) | lost(PGD(), epsilon) | lost(APGDT(steps=10, classes=3), epsilon)
        assert evaluation.accuracy()[epsilon] == np.mean(~so_far)


def test_outcomes_are_stored_as_a_run_that_names_its_training():
    with MemoryStore() as store:
        training = store.begin_run("digits")
        training.close()
        evaluation = evaluate(model(NETWORK), X, Y, EPSILONS, store=store, parent="digits", norm="l2", seed=4)
        run = store.find_run(evaluation.run)
        assert (run.kind, run.state, run.parent) == ("evaluation", "finished", training.run.id)
        key = [(outcome.attack, outcome.epsilon) for outcome in evaluation.outcomes]
        stored = {(outcome.attack, outcome.epsilon): outcome for outcome in store.outcomes(run.id)}
        assert sorted(key) == sorted(stored)
        for outcome in evaluation.outcomes:
            same = stored[outcome.attack, outcome.epsilon]
            assert (same.accuracy, same.samples, same.norm) == (outcome.accuracy, 120, "l2")
            assert same.details == outcome.details
            assert math.isnan(same.median_distance) == math.isnan(outcome.median_distance)
        assert stored["pgd", 0.3].details["seed"] == run.config["seed"] == 4
        json.dumps([outcome.details for outcome in stored.values()])


def test_the_same_seed_gives_the_same_outcomes():
    attacks = [PGD(steps=3, random_start=True)]
    first, again = (evaluate(model(NETWORK), X, Y, EPSILONS, attacks=attacks, seed=2) for _ in range(2))
    assert repr(first) == repr(again)


def interrupt_after(calls):
    def progress(share, label):
        assert 0 < share <= 1
        assert label
        seen.append(share)
        if len(seen) == calls:
            raise KeyboardInterrupt

    seen = []
    return progress


def test_an_interrupted_evaluation_keeps_what_is_done(tmp_path):
    with open_store(str(tmp_path / "runs")) as store:
        evaluation = evaluate(model(NETWORK), X, Y, EPSILONS, store=store, progress=interrupt_after(6))
        assert evaluation.interrupted
        assert [(o.attack, o.epsilon) for o in evaluation.outcomes if o.attack == "fgsm"] == [
            ("fgsm", epsilon) for epsilon in (0.0, 0.05, 0.1, 0.3)
        ]
        assert list(evaluation.accuracy("pgd")) == [0.0]
        assert {(o.attack, o.epsilon) for o in store.outcomes(evaluation.run)} == {
            (o.attack, o.epsilon) for o in evaluation.outcomes
        }
        run = store.find_run(evaluation.run)
        assert (run.state, run.error) == ("failed", "KeyboardInterrupt: interrupted by the user")
        assert "interrupted" in evaluation.table()
        assert "-" in evaluation.table().splitlines()[3]


def test_an_attack_that_fails_ends_the_stored_run_as_failed():
    network = perceptron()
    network.pullback = lambda x, direction: 1 / (len(x) == 16) and ClosedForm.pullback(network, x, direction)
    network.logits = lambda x: ClosedForm.pullback(network, x, np.zeros_like)[0]
    with MemoryStore() as store:
        with pytest.raises(ZeroDivisionError):
            evaluate(model(network), X, Y, EPSILONS, store=store)
        (run,) = store.runs()
        assert (run.state, run.error) == ("failed", "ZeroDivisionError: division by zero")
        assert {outcome.epsilon for outcome in store.outcomes(run.id)} == {0.0}


def test_a_store_that_fails_costs_records_and_not_the_evaluation(caplog, monkeypatch):
    class Broken(MemoryStore):
        def begin_run(self, *arguments, **options):
            writer = super().begin_run(*arguments, **options)

            def full(outcomes):
                raise StoreUnavailable("the disk is full")

            monkeypatch.setattr(type(writer), "write_outcomes", lambda self, outcomes: full(outcomes))
            return writer

    with Broken() as store:
        evaluation = evaluate(model(NETWORK), X, Y, EPSILONS, store=store)
    assert len(evaluation.outcomes) == 16
    assert "the evaluation continues: the disk is full" in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"attacks": ["pgdd"]}, UnknownAttack, "did you mean 'pgd'"),
        ({"attacks": []}, InvalidInput, "a sequence of names or attacks"),
        ({"attacks": "pgd"}, InvalidInput, "a sequence of names or attacks, got 'pgd'"),
        ({"attacks": [PGD(norm="l2")]}, InvalidInput, "in one norm, norm='linf', got pgd in 'l2'"),
        ({"attacks": ["pgd", PGD()]}, InvalidInput, "each attack once, got pgd, pgd"),
        ({"norm": "l7"}, UnknownAttack, "attack 'fgsm' knows the norms linf, l2, l1"),
        ({"parent": "nowhere"}, RunNotFound, "nowhere"),
        ({"y": Y + 9}, InvalidInput, "labels expects classes"),
    ],
)
def test_a_refused_evaluation_leaves_nothing_in_the_store(options, error, message):
    with MemoryStore() as store:
        arguments = {"y": Y, "epsilons": EPSILONS, "store": store} | options
        with pytest.raises(error, match=message):
            evaluate(model(NETWORK), X, **arguments)
        assert store.runs() == ()


def test_a_parent_needs_a_store():
    with pytest.raises(InvalidInput, match="parent 'latest' expects store="):
        evaluate(model(NETWORK), X, Y, EPSILONS, parent="latest")


def test_attacks_of_one_name_are_told_apart_by_their_options():
    evaluation = evaluate(model(NETWORK), X, Y, [0.1], attacks=["pgd", PGD(steps=3, restarts=2)])
    assert evaluation.attacks == ("pgd", "pgd steps=3 restarts=2", WORST_CASE)


def test_the_table_has_a_line_for_each_attack():
    lines = evaluate(model(NETWORK), X, Y, [0.1]).table().splitlines()
    assert lines[0] == "accuracy of 120 samples within epsilon (linf)"
    assert lines[1].split() == ["attack", "0", "0.1"]
    assert [line.split()[0] for line in lines[2:5]] == ["fgsm", "pgd", "apgd-t"]
    assert lines[5].split()[0] == WORST_CASE
    assert {len(line) for line in lines[1:6]} == {len(lines[1])}
    assert lines[6].startswith("half of the samples are misclassified within epsilon 0.")


def test_the_gap_to_plain_pgd_and_the_nearest_examples_are_told():
    evaluation = evaluate(model(NETWORK), X, Y, EPSILONS, attacks=["pgd", "deepfool"])
    plain = PGD(steps=40, step_size=2.5 / 40, random_start=True, sharpened=False)
    deep = lambda epsilon: lost(make_attack("deepfool", "linf"), epsilon)  # noqa: E731
    for epsilon in EPSILONS:
        missed = ~lost(plain, epsilon) & (lost(PGD(), epsilon) | deep(epsilon))
        assert evaluation.gap[epsilon] == pytest.approx(np.mean(missed), abs=0.01)
        worst = next(o for o in evaluation.outcomes if (o.attack, o.epsilon) == (WORST_CASE, epsilon))
        assert worst.details["gap"] == evaluation.gap[epsilon]
        assert worst.details["median_minimum_norm"] == evaluation.median_minimum_norm
    assert evaluation.gap[0.0] == 0
    exact = make_attack("deepfool", "linf")(model(NETWORK), X, Y, epsilons=None).minimum_norms
    assert 0 < evaluation.median_minimum_norm <= np.median(exact) <= 1.1 * evaluation.median_minimum_norm


_KILLED = """
import os, signal
from tests.armour.evaluation.test_evaluate import EPSILONS, NETWORK, X, Y
from tests.armour.networks import model
from mindscope.armour import evaluate

calls = 0
def progress(share, label):
    global calls
    calls += 1
    if calls == {calls}:
        os.kill(os.getpid(), signal.SIGKILL)

evaluate(model(NETWORK), X[:40], Y[:40], EPSILONS, attacks={attacks}, checkpoint={path!r}, progress=progress)
"""


@pytest.mark.parametrize("calls", [3, 8])
def test_after_a_kill_the_same_call_goes_on_to_the_same_result(tmp_path, calls):
    attacks = ["fgsm", "deepfool", "apgd-ce"]
    path = tmp_path / "evaluation.npz"
    program = _KILLED.format(path=str(path), calls=calls, attacks=attacks)
    killed = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=False)
    assert killed.returncode == -signal.SIGKILL
    seen = []
    resumed = evaluate(
        model(NETWORK), X[:40], Y[:40], EPSILONS, attacks=attacks, checkpoint=path,
        progress=lambda share, label: seen.append(label),
    )  # fmt: skip
    assert len(seen) == {3: 9 - 2, 8: 9 - 7}[calls]  # what was complete before the kill is not done again
    assert repr(resumed) == repr(evaluate(model(NETWORK), X[:40], Y[:40], EPSILONS, attacks=attacks))
    assert [file.name for file in tmp_path.iterdir()] == ["evaluation.npz"]


def test_the_standard_suite_goes_on_after_a_stop_without_a_trace(tmp_path):
    network, path = perceptron(), tmp_path / "evaluation.npz"
    x, y = data(network, 10)
    arguments = {"suite": "standard", "checkpoint": path}
    stopped = evaluate(model(network), x, y, [0.2], progress=interrupt_after(4), **arguments)
    assert stopped.interrupted
    assert stopped.gap == {}
    resumed = evaluate(model(network), x, y, [0.2], **arguments)
    assert repr(resumed) == repr(evaluate(model(network), x, y, [0.2], suite="standard"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "belongs to an evaluation of another model, other samples or other options"),
        ({"epsilons": [0.2]}, "belongs to an evaluation of another"),
        ({"y": np.roll(Y, 1)}, "belongs to an evaluation of another"),
        ({"attacks": [PGD(steps=3)]}, "belongs to an evaluation of another"),
    ],
)
def test_a_checkpoint_of_another_evaluation_is_refused(tmp_path, change, words):
    path = tmp_path / "evaluation.npz"
    arguments = {"y": Y, "epsilons": [0.1], "attacks": ["pgd"], "checkpoint": path}
    evaluate(model(NETWORK), X, **arguments)
    with pytest.raises(InvalidInput, match=words):
        evaluate(model(NETWORK), X, **arguments | change)
    path.write_text("nothing of ours")
    with pytest.raises(InvalidInput, match="not a checkpoint of an evaluation"):
        evaluate(model(NETWORK), X, **arguments)


def test_images_leave_a_gallery_from_which_they_can_be_seen_again():
    network = perceptron()
    x, y = data(network, 30, shape=(3, 4))
    evaluation = evaluate(model(network), x, y, [0.2], attacks=["fgsm"])
    result = FGSM()(model(network), x, y, epsilons=[0.2])
    (outcome,) = (o for o in evaluation.outcomes if (o.attack, o.epsilon) == ("fgsm", 0.2))
    assert len(outcome.details["gallery"]) == 6
    for entry in outcome.details["gallery"]:
        row = entry["sample"]
        clean = np.frombuffer(base64.b64decode(entry["clean"]), np.uint8).reshape(entry["shape"]) / 255
        change = np.frombuffer(base64.b64decode(entry["change"]), np.int8).reshape(entry["shape"]).astype(float)
        np.testing.assert_allclose(clean, x[row], atol=0.5 / 255 + 1e-6)
        expected = result.adversarials[0, row] - x[row]
        np.testing.assert_allclose(change / 127 * entry["scale"], expected, atol=0.2 / 127 + 1e-6)
        logits = network.logits(result.adversarials[0, row : row + 1])[0].astype(float)
        assert entry["adversarial_class"] == logits.argmax() != entry["label"] == entry["clean_class"] == y[row]
        assert entry["adversarial_confidence"] == pytest.approx(np.exp(logits - logits.max()).sum() ** -1, rel=1e-5)
