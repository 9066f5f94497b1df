"""`mindscope armour detect`, and what a defence costs who asks: `measure --queries`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import open_store

_MODEL = """
import numpy as np
from mindscope.framework import Tensor, nn

def net(sign=1.0):
    cell = nn.Dense(8, 2)
    row = np.array([1] * 4 + [-1] * 4, dtype=np.float32) * sign
    cell.weight.set_data(Tensor(np.stack([row, -row])))
    cell.bias.set_data(Tensor(np.zeros(2, dtype=np.float32)))
    return cell.set_train(False)

def sharp():
    cell = net()
    cell.weight.set_data(cell.weight * 50.0)
    return cell
"""


@pytest.fixture
def attacked(tmp_path: Path) -> list[object]:
    """Two classes on a line with noise: whoever moves all pixels against it leaves the line."""
    (tmp_path / "small_model.py").write_text(_MODEL)
    generator = np.random.default_rng(0)
    y = np.arange(60) % 2
    ends = np.where(np.arange(8) < 4, 0.7, 0.3)
    x = np.where(y[:, None] == 0, ends, 1 - ends) + generator.normal(0, 0.01, (60, 8))
    np.savez(tmp_path / "data.npz", x=x.astype(np.float32), y=y)
    return [f"{tmp_path / 'small_model.py'}:net", "--data", tmp_path / "data.npz", "--store", tmp_path / "runs"]


def test_what_each_detector_catches_is_told_and_stored(
    command: Callable, attacked: list[object], tmp_path: Path
) -> None:
    told = command("armour", "detect", *attacked, "--detector", "mahalanobis,magnet-error", "--epsilon", 0.3)
    assert told.code == 0
    assert "detector mahalanobis: 100.0% [83.2%, 100.0%] of 20 adversarial inputs detected" in told.out
    with open_store(str(tmp_path / "runs")) as store:
        (run,) = store.runs()
        found = {one.attack: one for one in store.outcomes(run.id)}
    assert set(found) == {"detector mahalanobis", "detector magnet-error"}
    details = found["detector mahalanobis"].details
    assert (details["kind"], details["auc"], details["attack"]) == ("metric", 1.0, "pgd")
    assert details["allowed_false_positive_rate"] == 0.05
    assert found["detector mahalanobis"].epsilon == 0.3


def test_what_a_detector_costs_who_asks_is_measured_on_request(command: Callable, attacked: list[object]) -> None:
    options = ("--detector", "mahalanobis", "--epsilon", 0.3, "--queries", 60, "--json")
    outcomes = json.loads(command("armour", "detect", *attacked, *options).out)["outcomes"]
    (cost,) = [one for one in outcomes if one["attack"] == "query defence mahalanobis"]
    assert cost["details"]["success_variance"] > 0.5
    assert cost["details"]["response_time_variance"] > -1  # a share of a time, which a busy machine may turn round
    assert cost["details"]["allowed"] == 60
    assert cost["accuracy"] > 0.5


def test_a_defence_and_the_bare_model_are_asked_as_often(
    command: Callable, attacked: list[object], tmp_path: Path
) -> None:
    options = ("--bare", f"{tmp_path / 'small_model.py'}:sharp", "--queries", 40, "--epsilon", 0.3)
    told = command("armour", "measure", *attacked, *options, "--batches", 2, "--points", 3)
    assert told.code == 0
    assert "query defence: +0.0% of 40 queries, 0.0% fewer attacks succeed" in told.out  # a scale is no defence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("detect", "--detector", "magnet"), "did you mean 'magnet-error'"),
        (("detect", "--attack", "pgdd"), "did you mean 'pgd'"),
        (("detect", "--epsilon", 0.001), "attacks of a larger epsilon"),
        (("measure", "--queries", 10), "--bare"),
    ],
)
def test_wrong_wishes_are_one_line(
    command: Callable, attacked: list[object], tmp_path: Path, arguments: tuple[object, ...], words: str
) -> None:
    told = command("armour", arguments[0], *attacked, *arguments[1:])
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
