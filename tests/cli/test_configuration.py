"""`mindscope config` writes what it reads, and `mindscope sites` shows what can be named in it."""

import json
from collections.abc import Callable
from pathlib import Path

from mindscope.probe import load_config

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_pytorch.py"


def test_init_writes_the_defaults_and_never_over_a_file(command: Callable, tmp_path: Path) -> None:
    told = command("config", "init", tmp_path / "monitor.yaml")
    assert told.code == 0
    assert load_config(tmp_path / "monitor.yaml") == load_config()
    again = command("config", "init", tmp_path / "monitor.yaml")
    assert (again.code, again.out) == (2, "")
    assert "is there already" in again.err


def test_the_settings_that_are_commented_out_are_right_too(command: Callable, tmp_path: Path) -> None:
    command("config", "init", tmp_path / "monitor.yaml")
    text = (tmp_path / "monitor.yaml").read_text().replace("# ", "", 1)
    lines = [line.removeprefix("# ") for line in text.splitlines()[1:]]
    (tmp_path / "all.yaml").write_text("\n".join(lines))
    config = load_config(tmp_path / "all.yaml")
    assert (config.budget, config.depth) == (0.03, 3)
    assert config.schedule("gradient").per_decade == 20


def test_check_says_what_is_wrong(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("evry: 3\n")
    told = command("config", "check", tmp_path / "monitor.yaml")
    assert (told.code, told.out) == (2, "")
    assert "did you mean 'every'" in told.err
    (tmp_path / "monitor.yaml").write_text("every: 3\n")
    assert command("config", "check", tmp_path / "monitor.yaml").code == 0


def test_explain_tells_when_every_subject_is_due(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("every: 10\nsubjects: {weight: false, gradient: {first: 5, every: 20}}\n")
    told = command("config", "explain", tmp_path / "monitor.yaml", "--json")
    subjects = json.loads(told.out)["subjects"]
    assert subjects["activation"] == "every 10 steps"
    assert subjects["gradient"] == "every 20 steps, the first 5"
    assert subjects["weight"] == "never"


def test_sites_shows_the_modules_of_a_script_in_the_order_of_their_calls(command: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\n"
        "from mindscope.framework import Key, Tensor, nn, optim\n"
        "print('hello')\n"
        "net = nn.SequentialCell(nn.Dense(4, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 2, key=Key(1))).set_train()\n"
        "optimizer = optim.SGD(net.trainable_params(), 0.1)\n"
        "net(Tensor(np.ones((3, 4), np.float32)))\n"
        "raise SystemExit('never reached')\n"
    )
    told = command("sites", "--json", script)
    assert told.code == 0, told.err
    sites = json.loads(told.out)["sites"]
    assert [(one["site"], one["kind"], one["calls"]) for one in sites] == [
        ("0", "Dense", 1),
        ("1", "ReLU", 1),
        ("2", "Dense", 1),
        ("", "SequentialCell", 1),
    ]
    assert sites[0]["outputs"] == ["(3, 8) float32"]
    assert [one["parameters"] for one in sites] == [40, 0, 18, 0]
    assert "never reached" not in told.err


def test_a_script_that_trains_nothing_is_said(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("x = 1\n")
    told = command("sites", tmp_path / "nothing.py")
    assert (told.code, told.out) == (2, "")
    assert "trained no model" in told.err
