"""A script is run as Python would run it, with its training watched."""

import logging
import runpy
import sys

import numpy as np
import pytest
from mindscope.probe import ConfigError, ScriptNotFound, SiteNotFound
from mindscope.probe import watch_session as beginning
from mindscope.storage import open_store
from mindscope.watching import run_script

TORCH = """
import sys, torch
assert __name__ == "__main__"
torch.manual_seed(0)
frozen = torch.nn.Linear(6, 6).requires_grad_(False)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for step in range(4):
    loss = torch.nn.functional.cross_entropy(model(frozen(torch.randn(5, 6))), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ENGINE = """
import numpy as np
from mindscope.framework import Key, Tensor, nn, ops
model = nn.SequentialCell(nn.Dense(6, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 3, key=Key(1))).set_train()
optimizer = nn.Momentum(model.trainable_params(), 0.1, 0.9)
for step in range(4):
    loss = ops.cross_entropy(model(Tensor(np.ones((5, 6), np.float32))), Tensor(np.zeros(5, np.int64)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(folder, text, *arguments, **options):
    script = folder / "train.py"
    script.write_text(text)
    return run_script(script, arguments, store=folder / "runs", **options)


def latest(folder):
    store = open_store(folder / "runs")
    return store, store.find_run("latest")


@pytest.mark.parametrize("framework", ["torch", "engine"])
def test_an_unchanged_script_is_watched_from_its_first_step(tmp_path, framework):
    if framework == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    before = sys.argv, list(sys.path)
    assert run(tmp_path, TORCH if framework == "torch" else ENGINE) == 0
    assert (sys.argv, sys.path) == before
    store, found = latest(tmp_path)
    assert (found.name, found.state, found.last_step) == ("train", "finished", 3)
    assert found.framework.startswith("torch" if framework == "torch" else "mindscope")
    for site, metric in (("0", "activation/std"), ("2.weight", "gradient/std"), ("", "scalar/loss")):
        assert len(store.series(found.id, site, metric).values) == 4
    slots = [metric for metric in store.metrics(found.id) if metric.startswith("optimizer/")]
    assert slots


@pytest.mark.parametrize("optimizer", ["SGD(model.parameters(), 0.1)", "LBFGS(model.parameters(), max_iter=3)"])
@pytest.mark.parametrize("call", ["step(evaluate)", "step(closure=evaluate)"])
def test_a_script_whose_optimizer_is_given_a_closure_is_watched_from_its_first_step(tmp_path, optimizer, call):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = (
        "import torch\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))\n"
        f"optimizer = torch.optim.{optimizer}\n"
        "x, y = torch.randn(8, 4), torch.randn(8, 1)\n"
        "first, norms, losses, moved = [], [], [], []\n"
        "def evaluate():\n"
        "    optimizer.zero_grad()\n"
        "    loss = (model(x) - y).square().mean()\n"
        "    loss.backward()\n"
        "    norms.append(model[0].weight.grad.norm().item())\n"
        "    return loss\n"
        "for _ in range(4):\n"
        "    first.append(len(norms))\n"
        "    before = model[0].weight.detach().clone()\n"
        f"    losses.append(optimizer.{call}.item())\n"
        "    moved.append((model[0].weight.detach() - before).norm().item())\n"
    )
    (tmp_path / "train.py").write_text(text)
    bare = runpy.run_path(str(tmp_path / "train.py"))
    norms = [bare["norms"][at] for at in bare["first"]]
    assert run(tmp_path, text) == 0
    store, found = latest(tmp_path)
    assert (found.last_step, store.events(found.id, kind="monitor_fault")) == (3, ())
    for site, metric, expected in (
        ("", "scalar/loss", bare["losses"]),
        ("0.weight", "gradient/l2_norm", norms),
        ("0.weight", "update/l2_norm", bare["moved"]),
    ):
        series = store.series(found.id, site, metric)
        assert series.steps.tolist() == [0, 1, 2, 3]
        np.testing.assert_allclose(series.values, expected, rtol=1e-5)
    activations = store.series(found.id, "0", "activation/std")
    assert activations.steps.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [("sys.exit(7)", 7, "SystemExit: 7"), ("sys.exit('no data')", 1, "SystemExit: no data"), ("sys.exit()", 0, "")],
)
def test_the_exit_code_is_the_scripts_own(tmp_path, capsys, ending, code, said):
    assert run(tmp_path, f"import sys\n{ENGINE}\n{ending}") == code
    _, found = latest(tmp_path)
    assert found.error == said
    assert ("no data" in capsys.readouterr().err) == ("no data" in ending)


def test_an_exception_is_shown_as_python_shows_it_and_recorded(tmp_path, capsys):
    assert run(tmp_path, f"{ENGINE}\nraise KeyError('lost')") == 1
    shown = capsys.readouterr().err
    assert "KeyError: 'lost'" in shown
    assert "runpy" not in shown
    store, found = latest(tmp_path)
    assert found.state == "failed"
    assert store.events(found.id, kind="exception")[0].data["type"] == "KeyError"


def test_the_script_sees_its_own_arguments_and_finds_its_neighbours(tmp_path, capsys):
    (tmp_path / "neighbour_of_the_script.py").write_text("WORD = 'here'")
    text = "import sys, neighbour_of_the_script as n\nprint(sys.argv[1:], n.WORD)"
    assert run(tmp_path, text, "--depth", "3") == 0
    assert capsys.readouterr().out == "['--depth', '3'] here\n"


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)"])
def test_of_a_script_that_trains_nothing_stderr_says_what_is_noticed(tmp_path, capsys, ending):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    try:
        assert run(tmp_path, f"import logging\nlogging.disable()\n{ending}") == 0
    finally:
        logging.disable(logging.NOTSET)
    told = capsys.readouterr().err
    assert "train.py trained no model that could be watched: it must call a Module of torch or a Cell with" in told
    assert "gradients on; nothing was recorded" in told


def test_of_a_model_that_nothing_steps_it_is_said(tmp_path, caplog):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert run(tmp_path, TORCH.replace("optimizer.step()", "pass")) == 0
    assert "no optimizer stepped this model, nor did its weights change" in caplog.text


def test_the_run_remembers_what_the_script_was_called_with_and_no_secrets(tmp_path):
    assert run(tmp_path, ENGINE, "--lr", "3", "--hf-token", "abc") == 0
    host = latest(tmp_path)[1].host
    assert host["arguments"] == ["--lr", "3", "--hf-token", "***"]
    assert run(tmp_path, ENGINE) == 0
    assert "arguments" not in latest(tmp_path)[1].host


def test_what_is_wrong_is_said_before_the_script_starts(tmp_path):
    with pytest.raises(ScriptNotFound, match="no script at"):
        run_script(tmp_path / "none.py", [], store=tmp_path / "runs")
    (tmp_path / "monitor.yaml").write_text("evry: 1")
    with pytest.raises(ConfigError, match="did you mean 'every'"):
        run(tmp_path, "raise SystemExit(9)", config=tmp_path / "monitor.yaml")


@pytest.mark.parametrize("framework", ["torch", "engine"])
def test_a_pattern_that_fits_no_site_stops_the_script_and_is_our_error(tmp_path, capsys, framework):
    if framework == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "monitor.yaml").write_text("exclude: ['*.dropuot']")
    text = TORCH if framework == "torch" else ENGINE
    indented = text.replace("\n", "\n    ")
    patient = f"try:{indented}pass\nexcept Exception:\n    print('caught')\nfinally:\n    print('cleaned')\nprint('on')"
    with pytest.raises(SiteNotFound, match="dropuot"):
        run(tmp_path, patient, config=tmp_path / "monitor.yaml")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("cleaned\n", "")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("framework", ["torch", "engine"])
def test_an_edited_configuration_is_followed_also_from_another_folder(tmp_path, monkeypatch, framework):
    if framework == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(beginning, "LOOK_S", -1.0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "live.yaml").write_text("every: 1")
    (tmp_path / "elsewhere").mkdir()
    edit = "    if step == 1:\n        pathlib.Path('../live.yaml').write_text('subjects: {weight: false}')\n"
    text = "import os, pathlib\nos.chdir('elsewhere')" + (TORCH if framework == "torch" else ENGINE) + edit
    assert run(tmp_path, text, config="live.yaml") == 0
    store, found = latest(tmp_path)
    (changed,) = store.events(found.id, kind="configuration_changed")
    assert changed.step in (2, 3)
    assert store.series(found.id, "2.weight", "weight/mean").steps.tolist() == list(range(changed.step))
    assert store.series(found.id, "2.weight", "gradient/mean").steps.tolist() == [0, 1, 2, 3]


def test_a_lookup_error_of_the_scripts_own_stays_its_own(tmp_path, capsys):
    own = "from mindscope.probe import SiteNotFound\nraise SiteNotFound('mine')"
    assert run(tmp_path, own) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_engine_is_as_it_was_after_a_script(tmp_path):
    from mindscope.framework import nn
    from mindscope.framework.optim import Optimizer

    before = nn.Cell.__call__, Optimizer.__init__
    run(tmp_path, "pass")
    run(tmp_path, ENGINE)
    assert (nn.Cell.__call__, Optimizer.__init__) == before


SEVERAL = """
import torch
def train(optimizers=1):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    for _ in range(optimizers):
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, 3)).square().mean().backward()
            optimizer.step()
"""


def test_a_second_model_that_is_trained_behind_the_first_is_told_at_the_end(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert run(tmp_path, SEVERAL + "train()\ntrain()\n") == 0
    told = capsys.readouterr().err
    assert "only Sequential was recorded; of others, Adam stepped 4" in told
    assert latest(tmp_path)[1].last_step == 2


def test_a_second_optimizer_of_the_same_model_is_no_second_model(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert run(tmp_path, SEVERAL + "train(2)\n") == 0
    assert "was recorded" not in capsys.readouterr().err
