"""Scripts as people have them: with arguments, with two models, in a package, or broken before they train anything."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest
from mindscope.probe.watch_session import is_rehearsal

pytest.importorskip("torch", reason="PyTorch is not installed")

STEP = "loss.backward(); optimizer.step(); optimizer.zero_grad()\n"
ARGUMENTS = (
    "import argparse, torch\n"
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--width', type=int, required=True)\n"
    "net = torch.nn.Linear(4, parser.parse_args().width)\n"
    "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
    "for _ in range(3):\n    loss = net(torch.ones(2, 4)).square().mean(); " + STEP
)
TWO = (
    "import torch\n"
    "maker, judge = torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid())\n"
    "judge(maker(torch.ones(2, 3)))\n"
)
UNFINISHED = "import torch\ntorch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(5, 4))(torch.ones(2, 3))\n"
WATCHED = (
    "import mindscope, torch\n"
    "net = torch.nn.Linear(3, 1)\n"
    "with mindscope.watch(net, torch.optim.SGD(net.parameters(), 0.1), store='memory:'):\n"
    "    net(torch.ones(2, 3))\n"
)
#: Its configuration names what there is not: the sites are asked for because of that.
WATCHING = """
import mindscope, torch
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
config = {"modules": ["nowhere"], "dump": {"sites": ["*"]}, "flight_recorder": {"steps": 3}}
monitor = mindscope.watch(net, optimizer, store="runs/", run="mine", config=config)
monitor.log(rate=0.1)
print(monitor.run.id, monitor.step, monitor.findings)
try:
    for _ in range(3):
        net(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.flush()
finally:
    monitor.close()
"""
WATCHING_CELL = """
import mindscope, numpy
from mindscope.framework import Key, Tensor, nn
net = nn.SequentialCell(nn.Dense(3, 4, key=Key(0)), nn.Dense(4, 1, key=Key(1))).set_train()
optimizer = nn.SGD(net.trainable_params(), 0.1)
with mindscope.watch(net, optimizer, store="runs/") as monitor:
    for _ in range(3):
        net(Tensor(numpy.ones((2, 3), numpy.float32))).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.log(one=1.0)
"""
PACKAGE = (
    "import sys, torch\n"
    "from .parts import net\n"
    "optimizer = torch.optim.SGD(net.parameters(), float(sys.argv[1]))\n"
    "for _ in range(3):\n    loss = net(torch.ones(2, 3)).square().mean(); " + STEP
)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a script into the folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def put(text: str, name: str = "train.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return name

    return put


@pytest.fixture
def package(write: Callable) -> str:
    write("", "odd_package/__init__.py")
    write("import torch\nnet = torch.nn.Linear(3, 1)\n", "odd_package/parts.py")
    return write(PACKAGE, "odd_package/train.py")


def test_a_script_has_its_own_arguments_and_says_what_it_misses(command: Callable, write: Callable) -> None:
    script = write(ARGUMENTS)
    told = command("sites", "--json", script, "--width", "5")
    assert json.loads(told.out)["sites"][0]["outputs"] == ["(2, 5) float32"]
    for name in ("sites", "doctor"):
        told = command(name, script)
        assert told.code == 2
        assert "arguments are required: --width" in told.err
        assert "train.py ended with exit code 2 before it trained a model" in told.err
        assert "gradients on" not in told.err


def test_a_second_model_is_named(command: Callable, write: Callable) -> None:
    told = command("sites", "--json", write(TWO))
    document = json.loads(told.out)
    assert [one["site"] for one in document["sites"]] == [""]
    assert "Sequential" in document["others"]
    assert "not shown: " in command("sites", "train.py").err


def test_a_model_that_keeps_its_networks_in_a_plain_list_has_no_parameters_and_is_told_why(
    command: Callable, write: Callable
) -> None:
    script = (
        "import torch\nclass Stack(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.blocks = [torch.nn.Linear(4, 4) for _ in range(3)]\n"
        "model = Stack()\ntorch.optim.Adam(model.parameters())\n"
    )
    told = command("run", write(script))
    assert told.code == 1
    assert "ValueError: optimizer got an empty parameter list" in told.err
    words = "Stack.blocks is a list of 3 modules, so the model has none of their 6 parameters; make it a ModuleList"
    assert words in told.err
    assert "parameter_not_in_optimizer at (model)" in told.err
    document = json.loads(command("diagnose", "--json", "--store", "runs").out)
    assert [found["cause"] for found in document["root_causes"]] == ["parameter_not_in_optimizer"]


def test_a_script_that_raises_before_it_trains_has_a_run_that_says_where(command: Callable, write: Callable) -> None:
    told = command("run", write("import torch\nlayer = torch.nn.Linear(3, 1, bias=False)\nlayer.bias.zero_()\n"))
    assert told.code == 1
    assert "train.py ended with AttributeError before it trained a model\n" in told.err
    assert "nothing was recorded" not in told.err
    document = json.loads(command("diagnose", "--json", "--store", "runs").out)
    assert (document["verdict"], [found["cause"] for found in document["findings"]]) == ("unhealthy", ["program_error"])
    assert "train.py:3: `layer.bias.zero_()`" in document["findings"][0]["explanation"]


def test_a_script_that_goes_to_another_folder_is_recorded_where_it_was_begun(
    command: Callable, write: Callable, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = "import os, torch\nos.chdir('elsewhere')\nnet = torch.nn.Linear(3, 1)\n"
    script += "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
    script += "for _ in range(3):\n    loss = net(torch.ones(2, 3)).square().mean(); " + STEP
    before = Path.cwd()
    try:
        told = command("run", "--store", "kept", write(script))
    finally:
        os.chdir(before)
    assert told.code == 0
    assert json.loads(command("diagnose", "--json", "--store", "kept").out)["run"]
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("end", ["raise SystemExit(3)", "raise KeyboardInterrupt"])
def test_a_script_that_is_ended_on_purpose_before_it_trains_has_no_run(
    command: Callable, write: Callable, end: str, tmp_path: Path
) -> None:
    told = command("run", "--store", str(tmp_path / "ended"), write(end))
    assert "before it trained a model; nothing was recorded" in told.err
    assert not list((tmp_path / "ended").glob("*.rank0.db"))


def test_a_script_that_raises_before_it_trains_says_so_behind_its_own_traceback(
    command: Callable, write: Callable
) -> None:
    told = command("sites", write("raise FileNotFoundError('train.bin')"))
    assert (told.code, told.out) == (2, "")
    assert "FileNotFoundError: train.bin" in told.err
    assert told.err.rstrip().endswith("train.py ended with FileNotFoundError before it trained a model")


def test_a_script_that_watches_its_model_itself_is_told_how_to_go_on(command: Callable, write: Callable) -> None:
    told = command("run", "--store", "runs", write(WATCHED))
    assert told.code == 2
    assert "train.py watches its Linear itself; run it as it is, with python, or take the call" in told.err


@pytest.mark.parametrize("is_kept_quiet", [False, True], ids=["let through", "caught"])
def test_a_script_that_watches_its_model_itself_is_refused_without_a_run_of_either(
    command: Callable, write: Callable, is_kept_quiet: bool
) -> None:
    text = WATCHING.replace('"modules": ["nowhere"], ', "")
    if is_kept_quiet:
        text = "try:\n" + indent(text, "    ") + "except BaseException:\n    net(torch.ones(2, 3)).mean().backward()\n"
    told = command("run", "--store", "runs", write(text))
    assert (told.code, told.out) == (2, ""), told.err
    assert "train.py watches its Sequential itself" in told.err
    assert not list(Path().glob("runs/*.db"))


@pytest.mark.parametrize("watching", [WATCHING, WATCHING_CELL], ids=["torch", "engine"])
def test_looking_at_a_script_that_watches_its_model_itself_shows_it_and_leaves_nothing(
    command: Callable, write: Callable, watching: str
) -> None:
    script = write(watching)
    told = command("sites", "--json", script)
    assert told.code == 0, told.err
    assert [one["site"] for one in json.loads(told.out)["sites"]] == ["0", "1", ""]
    assert "no step was recorded" not in told.err
    told = command("doctor", "--steps", "2", "--json", script)
    assert json.loads(told.out)["steps"] == 2, told.err
    assert [path.name for path in Path().iterdir()] == [script]
    assert not is_rehearsal()


def test_a_forward_that_raises_shows_how_far_it_came(command: Callable, write: Callable) -> None:
    told = command("sites", write(UNFINISHED))
    assert told.code == 0
    assert "did not finish" in told.err
    document = json.loads(command("sites", "--json", "train.py").out)
    assert [(one["site"], one["calls"]) for one in document["sites"]] == [("0", 1), ("", 0), ("1", 0)]
    assert document["is_whole"] is False


@pytest.mark.filterwarnings("ignore:can't resolve package:ImportWarning")  # as Python ignores it
def test_a_part_of_a_package_runs_as_a_module_and_is_told_to(command: Callable, package: str) -> None:
    told = command("sites", package, "0.1")
    assert "a part of a package runs as `-- -m PACKAGE.MODULE`" in told.err
    told = command("doctor", "--steps", "2", "--json", "--", "-m", "odd_package.train", "0.1")
    document = json.loads(told.out)
    assert (document["steps"], document["exit_code"]) == (2, 0)
    assert command("run", "--store", "runs", "--", "-m", "odd_package.train", "0.1").code == 0
    assert "train" in command("show", "--store", "runs", "latest").out


def test_a_module_that_is_not_there_is_said(command: Callable, package: str) -> None:
    for words in (["odd_package.trian"], ["odd_package"], ["nothing.at.all"], []):
        told = command("sites", "--", "-m", *words)
        assert (told.code, told.out) == (2, "")
        assert "no module" in told.err or "must be followed" in told.err


def test_doctor_does_not_list_the_rules_that_two_steps_cannot_feed(command: Callable, write: Callable) -> None:
    told = command("doctor", "--steps", "2", write(ARGUMENTS), "--width", "5")
    assert "rules need more than 2 steps" in told.out
    assert "could not run" not in told.out
    assert "still running" not in told.out
