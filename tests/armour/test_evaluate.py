import json
import math

import numpy as np
import pytest
from mindscope.armour import FGSM, PGD, WORST_CASE, InvalidInput, UnknownAttack, evaluate
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
    assert evaluation.attacks == ("fgsm", "pgd", WORST_CASE)
    for name, attack in (("fgsm", FGSM()), ("pgd", PGD())):
        expected = {0.0: 0.9} | {epsilon: np.mean(~lost(attack, epsilon)) for epsilon in EPSILONS}
        assert evaluation.accuracy(name) == expected


def test_the_worst_case_counts_what_any_attack_defeats_within_the_budget_or_a_smaller_one():
    evaluation = evaluate(model(NETWORK), X, Y, EPSILONS)
    so_far = np.zeros(len(Y), bool)
    for epsilon in sorted(EPSILONS):
        so_far |= lost(FGSM(), epsilon) | lost(PGD(), epsilon)
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
    network.pullback = lambda *arguments: 1 / 0
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
    assert len(evaluation.outcomes) == 12
    assert "the evaluation goes on: the disk is full" in caplog.text


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
    assert [line.split()[0] for line in lines[2:]] == ["fgsm", "pgd", WORST_CASE]
    assert {len(line) for line in lines[1:]} == {len(lines[1])}
