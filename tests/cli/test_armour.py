import json
import re
import subprocess
import sys
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


def outcomes_of(folder: Path) -> dict[str, object]:
    """The outcomes of the newest run, by attack."""
    with open_store(str(folder)) as store:
        run = store.find_run("latest")
        assert (run.kind, run.state) == ("evaluation", "finished")
        return {outcome.attack: outcome for outcome in store.outcomes(run.id)}


def test_budgets_and_attacks_may_stand_between_commas(command: Callable, attacked: list[object]) -> None:
    told = command("armour", "evaluate", *attacked, "--epsilons", "0.1,0.3", "--attacks", "fgsm,pgd", "--json")
    found = {(o["attack"], o["epsilon"]): o["accuracy"] for o in json.loads(told.out)["outcomes"]}
    assert set(found) == {(a, e) for a in ("fgsm", "pgd", "worst-case") for e in (0.0, 0.1, 0.3)}
    assert command("armour", "evaluate", *attacked, "--epsilons", "0.1,much").err.startswith(
        "mindscope: --epsilons expects"
    )


def test_an_evaluation_writes_a_report_that_opens_offline(
    command: Callable, attacked: list[object], tmp_path: Path
) -> None:
    told = command("armour", "evaluate", *attacked, "--epsilons", "0.1,0.3", "--html", tmp_path / "report.html")
    assert told.code == 0
    page = (tmp_path / "report.html").read_text()
    assert len(page) < 10_000_000
    assert "worst-case" in page
    assert "Plotly.newPlot" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    assert not list(tmp_path.glob("*.part"))


def test_an_evaluation_goes_on_from_its_checkpoint(command: Callable, attacked: list[object], tmp_path: Path) -> None:
    call = ("armour", "evaluate", *attacked, "--epsilons", "0.1,0.3", "--json", "--checkpoint", tmp_path / "done.npz")
    first, again = (json.loads(command(*call).out) for _ in range(2))
    assert first["run"] != again["run"]
    assert {**first, "run": ""} == {**again, "run": ""}


@pytest.mark.parametrize(
    ("method", "norm", "expected"),
    [("crown", "linf", [1.0, 0.0]), ("ibp", "linf", [1.0, 0.0]), ("smoothing", "l2", [1.0, 0.0])],
)
def test_certificates_are_stored_beside_attacks(
    command: Callable, attacked: list[object], tmp_path: Path, method: str, norm: str, expected: list[float]
) -> None:
    options = ("--epsilons", "0.1,0.3" if norm == "linf" else "0.1,0.6", "--method", method, "--trials", 2000)
    told = command("armour", "certify", *attacked, *options, "--json", "--html", tmp_path / "report.html")
    document = json.loads(told.out)
    assert [one["accuracy"] for one in document["outcomes"]] == expected  # the distance is 0.2 in Linf, 0.4 in L2
    stored = outcomes_of(tmp_path / "runs")[f"certified {method}"]
    assert (stored.norm, stored.details["kind"]) == (norm, "certificate")
    assert "certified" in (tmp_path / "report.html").read_text()


_TORCH = """
import torch

def net():
    layer = torch.nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 1, -1, -1], [-1, -1, 1, 1]]))
        layer.bias.zero_()
    return torch.nn.Sequential(layer, torch.nn.Dropout())

def smooth():
    return torch.nn.Sequential(net(), torch.nn.Tanh())
"""


def test_torch_models_are_certified_by_bounds(command: Callable, attacked: list[object], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "torch_model.py").write_text(_TORCH)
    call = ["armour", "certify", f"{tmp_path / 'torch_model.py'}:net", *attacked[1:], "--epsilons", "1/10,0.3"]
    told = command(*call, "--limit", 3, "--name", "proven")
    assert told.out.splitlines() == [
        "certified accuracy of 3 samples (linf, crown)", "0.1      1.000", "0.3      0.000",
    ]  # fmt: skip
    with open_store(str(tmp_path / "runs")) as store:
        assert store.find_run("latest").name == "proven"
    refused = command(*call[:2], f"{tmp_path / 'torch_model.py'}:smooth", *call[3:])
    assert refused.code == 2
    assert "no bounds are known for Tanh at '1'; certificates by bounds support Linear" in refused.err


def test_metrics_of_a_model_and_of_its_defence_are_stored(
    command: Callable, attacked: list[object], tmp_path: Path
) -> None:
    with (tmp_path / "linear_model.py").open("a") as file:
        file.write("\ndef turned():\n    cell = net()\n    cell.weight.set_data(-cell.weight)\n    return cell\n")
    options = ("--bare", f"{tmp_path / 'linear_model.py'}:turned", "--batches", 2, "--points", 3)
    told = command("armour", "measure", *attacked, *options)
    assert told.code == 0
    assert "100.00% of the answers mended, 0.00% spoiled, accuracy +100.00%" in told.out
    found = outcomes_of(tmp_path / "runs")
    assert found["clever"].median_distance == pytest.approx(0.4)  # the model is linear: a gradient says it all
    length = np.sqrt(2 * (0.36 + 0.04))
    assert found["empirical robustness"].details["value"] == pytest.approx(0.4 / length, rel=1e-3)
    assert found["defence quality"].accuracy == 1.0
    assert all(one.details["kind"] == "metric" for one in found.values())


def test_noise_is_accounted_without_a_model(command: Callable, tmp_path: Path) -> None:
    options = ("--noise", 1.1, "--sample-rate", 0.01, "--steps", 10_000, "--store", tmp_path / "runs")
    told = command("armour", "privacy", *options)
    assert told.out == "privacy rdp: epsilon 5.632 at delta 1e-05\n"
    assert outcomes_of(tmp_path / "runs")["privacy rdp"].details["steps"][-1] == 10_000


_TRAINER = """
import numpy as np
from mindscope.framework import Tensor, nn

def train(x, y, seed):
    flat = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    weights = np.linalg.lstsq(flat, np.where(np.eye(2)[y] > 0, 4.0, -4.0), rcond=None)[0].astype(np.float32)
    cell = nn.Dense(x.shape[1], 2)
    cell.weight.set_data(Tensor(np.ascontiguousarray(weights[:-1].T)))
    cell.bias.set_data(Tensor(weights[-1]))
    return cell.set_train(False)

def target():
    data = np.load(__file__.replace("memorises.py", "members.npz"))
    return train(data["x"], data["y"], 0)
"""


def test_membership_is_told_from_a_model_that_has_memorised(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "memorises.py").write_text(_TRAINER)
    generator = np.random.default_rng(2)
    x = generator.uniform(0, 1, (60, 150)).astype(np.float32)
    y = (x[:, 0] + generator.normal(0, 0.3, 60) > 0.5).astype(np.int64)
    np.savez(tmp_path / "members.npz", x=x[:30], y=y[:30])
    np.savez(tmp_path / "others.npz", x=x[30:], y=y[30:])
    told = command(
        "armour", "privacy", f"{tmp_path / 'memorises.py'}:target", "--data", tmp_path / "members.npz",
        "--others", tmp_path / "others.npz", "--trainer", f"{tmp_path / 'memorises.py'}:train", "--shadows", 4,
        "--store", tmp_path / "runs",
    )  # fmt: skip
    assert told.code == 0
    assert [line.split(":")[0] for line in told.out.splitlines()] == [
        "membership threshold", "membership shadow", "membership lira",
    ]  # fmt: skip
    assert "% FPR; no rate at 0.1 % FPR, which needs 1000 others" in told.out
    stored = outcomes_of(tmp_path / "runs")
    assert stored["membership threshold"].details["auc"] > 0.8
    assert stored["membership lira"].details["members"] == 30


@pytest.fixture
def pictured(tmp_path: Path) -> list[object]:
    """A classifier of images by their left and right halves, and eight of them."""
    (tmp_path / "halves.py").write_text(_MODEL.replace("return cell", "return nn.SequentialCell(nn.Flatten(), cell)"))
    x = np.random.default_rng(0).uniform(0.3, 0.7, (8, 1, 2, 2)).astype(np.float32)
    y = (x[:, 0, 0].sum(axis=1) < x[:, 0, 1].sum(axis=1)).astype(np.int64)
    np.savez(tmp_path / "images.npz", x=x, y=y)
    return [f"{tmp_path / 'halves.py'}:net", "--data", tmp_path / "images.npz", "--store", tmp_path / "runs"]


def test_fuzzing_stores_coverage_and_faults_and_resumes(
    command: Callable, pictured: list[object], tmp_path: Path
) -> None:
    options = ("--rounds", 3, "--mutants", 8, "--attacks", "fgsm", "--corpus", tmp_path / "corpus.npz")
    told = command("armour", "fuzz", *pictured, *options, "--faults", "both", "--html", tmp_path / "report.html")
    assert told.code == 0
    stored = outcomes_of(tmp_path / "runs")
    assert [point["round"] for point in stored["fuzz"].details["curve"]] == [1, 2, 3]
    assert {"fault nan weights", "fault zero activations", "fault bit_flip weights"} <= set(stored)
    again = command("armour", "fuzz", *pictured, *options, "--faults", "none")
    assert again.out.splitlines()[0].split(";")[0] == told.out.splitlines()[0].split(";")[0]


def test_fuzzing_transforms_images_of_any_bounds(command: Callable, pictured: list[object], tmp_path: Path) -> None:
    arrays = np.load(tmp_path / "images.npz")
    np.savez(tmp_path / "images.npz", x=arrays["x"] * np.float32(255), y=arrays["y"])
    options = ("--rounds", 2, "--mutants", 16, "--faults", "none", "--corpus", tmp_path / "corpus.npz")
    told = command("armour", "fuzz", *pictured, *options, "--bounds", "0,255")
    assert told.code == 0
    found = np.load(tmp_path / "corpus.npz")["inputs"]
    assert len(found) > 8
    assert found.min() >= 0
    assert 1 < found.max() <= 255


def test_drift_is_stored(command: Callable, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name, mean in (("before", 0.0), ("now", 1.0)):
        np.savez(tmp_path / f"{name}.npz", x=generator.normal(mean, 1, (80, 5)), y=np.zeros(80, int))
    told = command("armour", "drift", tmp_path / "before.npz", tmp_path / "now.npz", "--store", tmp_path / "runs")
    assert told.out.count("the data have drifted") == 2
    assert outcomes_of(tmp_path / "runs")["drift ks"].details["has_drifted"]


@pytest.mark.parametrize(
    ("x", "y", "change", "words"),
    [
        (np.full((2, 4), 0.5, np.float32), [0, 7], "", "labels expects classes 0 to 1"),
        (np.full((2, 4), 1.5, np.float32), [0, 1], "", "within the model's bounds [0, 1]"),
        (np.full(4, 0.5, np.float32), [0, 1], "", "expects one sample or more, shape (n, ...)"),
        (np.full((2, 4), np.nan, np.float32), [0, 1], "", "x expects finite values, got 8 NaN or infinite"),
        (np.zeros((0, 4), np.float32), [], "", "one sample or more"),
        (np.full((2, 4), 1, np.int64), [0, 1], "", "x expects real numbers, got int64"),
        (
            np.full((2, 4), 0.5, np.float32),
            [0, 1],
            "Two(cell)",
            "several of which may be logits (2, classes); name the field",
        ),
    ],
    ids=["labels", "bounds", "rank", "NaN", "empty", "integers", "tuple"],
)
def test_bad_data_and_models_are_one_line_before_any_compute(
    command: Callable, tmp_path: Path, x: np.ndarray, y: list[int], change: str, words: str
) -> None:
    tuple_ = (
        "\nclass Two(nn.Cell):\n    def __init__(self, cell):\n        super().__init__()\n        self.cell = cell\n"
    )
    tuple_ += "    def construct(self, x):\n        return self.cell(x), x\n"
    model = _MODEL.replace("    return cell", f"    return ({change or 'cell'}).set_train(False)") + tuple_
    (tmp_path / "bad_model.py").write_text(model)
    np.savez(tmp_path / "data.npz", x=x, y=np.array(y, np.int64))
    told = command(
        "armour", "evaluate", f"{tmp_path / 'bad_model.py'}:net", "--data", tmp_path / "data.npz",
        "--store", tmp_path / "runs",
    )  # fmt: skip
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert not list((tmp_path / "runs").glob("*.db"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("privacy",), "privacy expects a TARGET"),
        (("privacy", "model.py:net"), "privacy expects --data"),
        (("privacy", "--noise", -1), "noise_multiplier expects a finite number above 0"),
        (("privacy", "--noise", 1, "--parent", "nobody"), "no store at"),
    ],
)
def test_wrong_wishes_of_privacy_are_one_line(
    command: Callable, tmp_path: Path, arguments: tuple[object, ...], words: str
) -> None:
    told = command("armour", *arguments, "--store", tmp_path / "nowhere")
    assert told.code in (2, 3)
    assert words in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("certify", "--method", "crwn"), "--method expects crown, ibp, smoothing, got 'crwn'"),
        (("certify", "--norm", "l1"), "norm expects one of linf, l2, got 'l1'"),
        (("certify", "--epsilons", "-1"), "epsilons expects finite budgets of 0 or more"),
        (("measure", "--norm", "l0"), "--norm expects l2, linf or l1, got 'l0'"),
        (("measure", "--radius", -1), "radius above 0"),
        (("fuzz", "--faults", "some"), "--faults expects weights, activations, both, none, got 'some'"),
        (("fuzz",), "natural transforms expect floating images"),
        (("fuzz", "--attacks", "fgms"), "did you mean 'fgsm'"),
    ],
)
def test_wrong_wishes_of_certificates_and_fuzzing_are_one_line(
    command: Callable, attacked: list[object], tmp_path: Path, arguments: tuple[object, ...], words: str
) -> None:
    told = command("armour", arguments[0], *attacked, *arguments[1:])
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


#: The signal comes as the second attack begins, whatever the machine is busy with; whoever started the tests may have
#: them ignore it, and their children with them.
_INTERRUPTED = """
import signal, sys
from mindscope.armour.attacks.square import Square
from mindscope.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
Square.search = lambda *_: signal.raise_signal(signal.SIGINT)
sys.exit(main())
"""


def test_an_interrupt_keeps_what_is_done(attacked: list[object], tmp_path: Path) -> None:
    options = ["--epsilons", "0.19", "--attacks", "fgsm,square", "--checkpoint", tmp_path / "done.npz"]
    words = [sys.executable, "-c", _INTERRUPTED, "armour", "evaluate", *attacked, *options]
    ended = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    assert ended.returncode == 130
    assert "interrupted" in ended.stdout.splitlines()[0]
    assert (tmp_path / "done.npz").exists()
    with open_store(str(tmp_path / "runs")) as store:
        (run,) = store.runs()
        assert (run.state, run.error) == ("failed", "KeyboardInterrupt: interrupted by the user")
        assert "fgsm" in {outcome.attack for outcome in store.outcomes(run.id)}
