import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import open_store

_MODEL = """
import numpy as np
from mindscope.framework import Tensor, nn

def net():
    cell = nn.Dense(4, 2)
    cell.weight.set_data(Tensor(np.array([[1, 1, -1, -1], [-1, -1, 1, 1]], dtype=np.float32)))
    cell.bias.set_data(Tensor(np.zeros(2, dtype=np.float32)))
    return cell
"""


@pytest.fixture
def attacked(tmp_path: Path) -> list[object]:
    """A linear classifier and four samples that an epsilon of 0.3 turns over and one of 0.1 does not."""
    (tmp_path / "linear_model.py").write_text(_MODEL)
    x = np.array([[0.6, 0.6, 0.2, 0.2], [0.2, 0.2, 0.6, 0.6]] * 2, dtype=np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.array([0, 1, 0, 1]))
    return [f"{tmp_path / 'linear_model.py'}:net", "--data", tmp_path / "data.npz", "--store", tmp_path / "runs"]


def test_attacks_are_listed_with_their_papers(command: Callable) -> None:
    told = command("armour", "attacks", "--json")
    attacks = {attack["name"]: attack for attack in json.loads(told.out)["attacks"]}
    assert {"fgsm", "pgd"} <= set(attacks)
    assert "arXiv" in attacks["fgsm"]["reference"]
    assert "fgsm" in command("armour", "attacks").out


def test_a_model_is_attacked_and_the_outcomes_are_stored(
    command: Callable, attacked: list[object], tmp_path: Path
) -> None:
    told = command("armour", "evaluate", *attacked, "--epsilon", 0.1, "--epsilon", 0.3, "--attack", "fgsm", "--json")
    assert told.code == 0
    accuracy = {o["epsilon"]: o["accuracy"] for o in json.loads(told.out)["outcomes"] if o["attack"] == "fgsm"}
    assert accuracy == {0.0: 1.0, 0.1: 1.0, 0.3: 0.0}
    with open_store(str(tmp_path / "runs")) as store:
        (run,) = store.runs()
        assert run.kind == "evaluation"
        assert {outcome.attack for outcome in store.outcomes(run.id)} >= {"fgsm"}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--attack", "fgms", "did you mean 'fgsm'"),
        ("--norm", "l3", "linf"),
        ("--suite", "standart", "did you mean 'standard'"),
        ("--epsilon", "-1", "epsilon"),
        ("--parent", "nobody", "nobody"),
    ],
)
def test_wrong_wishes_are_told_before_anything_is_attacked(
    command: Callable, attacked: list[object], option: str, value: str, words: str
) -> None:
    told = command("armour", "evaluate", *attacked, option, value)
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.count("\n") == 1
