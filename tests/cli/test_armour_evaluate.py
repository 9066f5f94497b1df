"""`mindscope armour evaluate` in a pipeline: budgets as people write them, options of attacks, and the exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import open_store

_MODEL = """
import numpy as np
from mindscope import armour
from mindscope.framework import Tensor, nn

def net(scale=1.0):
    cell = nn.Dense(4, 2)
    rows = np.array([[1, 1, -1, -1], [-1, -1, 1, 1]], dtype=np.float32)
    cell.weight.set_data(Tensor(np.float32(scale) * rows))
    cell.bias.set_data(Tensor(np.zeros(2, dtype=np.float32)))
    return cell.set_train(False)

def saturated():
    return net(1000.0)

def in_bytes():
    return armour.wrap(net(0.004), bounds=(0, 255))

wrapped = in_bytes()

def price():
    cell = nn.Dense(4, 1)
    cell.weight.set_data(Tensor(np.array([[1, 1, -1, -1]], dtype=np.float32)))
    cell.bias.set_data(Tensor(np.zeros(1, dtype=np.float32)))
    return cell.set_train(False)

def predict(x):
    return x @ np.array([[1, -1], [1, -1], [-1, 1], [-1, 1]], dtype=np.float32)

def in_features():
    return armour.wrap(net(), bounds=(np.zeros(4), np.array([1.0, 1, 1, 2])))
"""


@pytest.fixture
def model(tmp_path: Path) -> Callable:
    """Arguments for a linear classifier, and four samples that 0.2 of the box turns over."""
    (tmp_path / "linear.py").write_text(_MODEL)

    def arguments(name: str = "net", width: float = 1.0) -> list[object]:
        x = np.array([[0.6, 0.6, 0.2, 0.2], [0.2, 0.2, 0.6, 0.6]] * 2, dtype=np.float32)
        np.savez(tmp_path / "data.npz", x=x * np.float32(width), y=np.array([0, 1, 0, 1]))
        target = f"{tmp_path / 'linear.py'}:{name}"
        return ["armour", "evaluate", target, "--data", tmp_path / "data.npz", "--store", tmp_path / "runs"]

    return arguments


def accuracies(out: str, attack: str = "worst-case") -> dict[float, float]:
    return {o["epsilon"]: o["accuracy"] for o in json.loads(out)["outcomes"] if o["attack"] == attack}


@pytest.mark.parametrize("bounds", [["--bounds", "0,255"], ["--bounds", "0", "255"], ["--bounds=0,255"]])
def test_budgets_may_be_fractions_and_bounds_a_pair(command: Callable, model: Callable, bounds: list[str]) -> None:
    told = command(*model(width=255.0), *bounds, "--epsilons", "25/1,8160/100", "--attack", "fgsm", "--json")
    assert accuracies(told.out) == {0.0: 1.0, 25.0: 1.0, 81.6: 0.0}
    told = command(*model(), "--epsilons", "8/255", "--attack", "fgsm", "--json")
    assert accuracies(told.out) == {0.0: 1.0, 8 / 255: 1.0}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilons", "8/0"), "--epsilons expects finite numbers, as in --epsilons 0.05,8/255; got '8/0'"),
        (("--epsilons", "inf"), "got 'inf'"),
        (("--bounds", "0"), "--bounds expects two numbers, as in --bounds 0,255; got '0'"),
        (("--attack", "pgd:stps=3"), "did you mean 'steps'"),
        (("--fail-under", "many"), "--fail-under expects an accuracy, as in 0.4 or 0.4@8/255; got 'many'"),
        (("--fail-under", "40"), "--fail-under expects an accuracy from 0 to 1, got 40"),
        (("--task", "regresion"), "--task expects multi-label, regression, segmentation; got 'regresion'"),
        (("--task", "regression"), "--task regression expects the largest error that is no harm"),
        (("--task", "segmentation:kept=much"), "--task segmentation expects kept to be a number, got 'much'"),
        (("--task", "multi-label:right=1"), "--task multi-label has no option 'right'; its options are wrong"),
        (("--frozen", "a"), "--frozen expects positions from 0, as in --frozen 0,3-5; got 'a'"),
        (("--bounds", "0:1,0"), "--bounds expects LOW:HIGH for each channel or column"),
        (("--fail-under", "0.4@0.5"), "--fail-under names the budget 0.5; --epsilons has 0, 0.01"),
    ],
)
def test_wrong_words_are_one_line_before_anything_is_attacked(
    command: Callable, model: Callable, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    told = command(*model(), *options)
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_attacks_take_options_and_runs_a_name(command: Callable, model: Callable, tmp_path: Path) -> None:
    told = command(*model(), "--epsilon", 0.1, "--attack", "pgd:steps=3,restarts=2", "--name", "nightly", "--json")
    assert told.code == 0
    with open_store(str(tmp_path / "runs")) as store:
        run = store.find_run("nightly")
        options = run.config["attacks"]["pgd"]
        assert (run.kind, options["steps"], options["restarts"]) == ("evaluation", 3, 2)


def test_the_first_samples_alone_are_attacked_and_that_is_said(command: Callable, model: Callable) -> None:
    told = command(*model(), "--epsilon", 0.1, "--attack", "fgsm", "--limit", 3)
    assert "the first 3 of the 4 samples in" in told.err
    assert told.out.startswith("accuracy of 3 samples")
    assert "the first" not in command(*model(), "--epsilon", 0.1, "--attack", "fgsm", "--limit", 4).err


def test_an_accuracy_below_the_floor_fails_the_pipeline(command: Callable, model: Callable) -> None:
    call = [*model(), "--epsilons", "0.1,0.3", "--attack", "fgsm"]
    failed = command(*call, "--fail-under", 0.4)
    assert failed.code == 1
    assert "failed: the worst case leaves 0.000 at epsilon 0.3, --fail-under asks for 0.4" in failed.err
    assert command(*call, "--fail-under", "0.9@1/10").code == 0
    assert command(*call, "--fail-under", "0.9@0.1,0.1").code == 1


def test_what_is_not_to_be_trusted_fails_the_pipeline(command: Callable, model: Callable) -> None:
    call = ["--epsilon", 0.1, "--attack", "fgsm"]
    told = command(*model("saturated"), *call)
    assert told.code == 1
    assert "failed: these accuracies are not to be trusted (logit-scale" in told.err
    document = json.loads(command(*model("saturated"), *call, "--json").out)
    assert document["is_trusted"] is False
    assert document["worst_case"][0] == {"norm": "linf", "epsilon": 0.0, "accuracy": 1.0}
    assert json.loads(command(*model(), *call, "--json").out)["is_trusted"] is True


@pytest.mark.parametrize("name", ["in_bytes", "wrapped"])
def test_a_target_may_be_wrapped_already(command: Callable, model: Callable, name: str) -> None:
    call = [*model(name, width=255.0), "--epsilon", 25, "--attack", "fgsm"]
    assert command(*call, "--json").code == 0
    refused = command(*call, "--bounds", "0,1")
    assert refused.code == 2
    assert "is wrapped with the bounds (0.0, 255.0), --bounds says (0.0, 1.0)" in refused.err


def test_a_function_of_inputs_is_a_model(command: Callable, model: Callable) -> None:
    told = command(*model("predict"), "--epsilons", "0.1,0.3", "--attack", "square:queries=100", "--json")
    assert accuracies(told.out) == {0.0: 1.0, 0.1: 1.0, 0.3: 0.0}


def test_bounds_of_features_and_bounds_of_the_command_exclude_each_other(command: Callable, model: Callable) -> None:
    call = [*model("in_features"), "--epsilon", 0.1, "--attack", "fgsm"]
    assert command(*call, "--json").code == 0
    assert "is wrapped with bounds for each feature; leave --bounds out" in command(*call, "--bounds", "0,1").err


def test_budgets_that_nobody_names_are_shares_of_the_bounds(command: Callable, model: Callable) -> None:
    told = command(*model("in_bytes", width=255.0), "--attack", "fgsm", "--json")
    assert list(accuracies(told.out)) == pytest.approx([0.0, 2.55, 7.65, 25.5, 76.5])
    assert "WARNING" not in told.err


def test_a_budget_of_another_scale_is_warned_of(command: Callable, model: Callable) -> None:
    told = command(*model("in_bytes", width=255.0), "--epsilon", 0.1, "--attack", "fgsm")
    assert told.code == 0
    assert "WARNING: epsilon 0.1 (linf) is the largest, and next to nothing within the bounds [0, 255]" in told.err


def test_a_stored_evaluation_shows_its_worst_case_and_whether_to_trust_it(
    command: Callable, model: Callable, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "runs")
    command(*model("saturated"), "--epsilon", 0.1, "--attack", "fgsm", "--name", "masked")
    command(*model(), "--epsilons", "0.1,0.3", "--attack", "fgsm", "--name", "honest")
    shown = command("show", "masked", *store).out
    assert "worst case (linf): 1.000 at 0, 1.000 at 0.1; of 4 samples" in shown
    assert "verdict: do not trust these numbers" in shown
    assert "  logit-scale 1.6e+03: " in shown
    assert "no findings" not in shown
    assert "verdict: credible; no sign of hidden gradients" in command("show", "honest", *store).out
    document = json.loads(command("show", "masked", *store, "--json").out)
    assert document["worst_case"] == [{"norm": "linf", "epsilon": e, "accuracy": 1.0} for e in (0.0, 0.1)]
    assert (document["verdict"], document["is_trusted"]) == ("do not trust these numbers", False)
    assert document["doubts"][0]["name"] == "logit-scale"
    listed = command("runs", tmp_path / "runs").out
    assert "0.000 left at 0.3 " in listed
    assert "1.000 left at 0.1, do not trust these numbers" in listed
    runs = json.loads(command("runs", tmp_path / "runs", "--json").out)["runs"]
    assert {run["name"]: run["is_trusted"] for run in runs} == {"masked": False, "honest": True}


def test_bounds_may_be_given_for_each_column(command: Callable, model: Callable) -> None:
    def left(last: str) -> float:
        call = ("--bounds", f"0:1,0:1,0:1,{last}", "--epsilons", "0.1", "--attack", "fgsm", "--json")
        return accuracies(command(*model(), *call).out)[0.1]

    assert (left("0:1"), left("-9:9")) == (1.0, 0.0)  # a tenth of 18 for the last column


def test_rules_for_features_are_options(command: Callable, model: Callable) -> None:
    call = [*model(), "--epsilon", "0.25", "--attack", "fgsm", "--json"]
    assert accuracies(command(*call).out)[0.25] == 0.0
    assert accuracies(command(*call, "--frozen", "0,2-3").out)[0.25] == 1.0
    refused = command(*model("in_bytes", 255.0), "--frozen", "0")
    assert "is wrapped already; say what features are in armour.wrap(...)" in refused.err


def test_a_task_is_an_option(command: Callable, model: Callable) -> None:
    call = ["--epsilon", "0.1", "--attack", "fgsm", "--json", "--task", "regression:tolerance=2"]
    # Outputs are 0.8 and -0.8, labels 0 and 1; a tenth of the box moves an output by 0.4.
    assert accuracies(command(*model("price"), *call).out) == {0.0: 1.0, 0.1: 0.5}


def test_draws_average_a_model_that_is_said_to_be_random(command: Callable, model: Callable, tmp_path: Path) -> None:
    assert command(*model(), "--epsilon", "0.1", "--attack", "fgsm", "--draws", 3, "--name", "drawn").code == 0
    with open_store(str(tmp_path / "runs")) as store:
        assert store.find_run("drawn").config["is_averaged"] is True
