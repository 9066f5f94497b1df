"""What TorchScript has made takes no hooks; its training is recorded without activations, and goes on untouched."""

import logging
import warnings

import mindscope as ms
import pytest

torch = pytest.importorskip("torch")

from mindscope.probe.adapters.torch.torch_unknown_model import TorchFinder  # noqa: E402  torch is there
from mindscope.watching import run_script  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
SCRIPT = """
import torch, warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
x, y = torch.randn(16, 3), torch.randn(16, 1)
{model}
losses = []
def train(net, optimizer):
    for step in range(5):
        loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
train(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9))
print(losses)
"""
PLAIN = "torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))"
SCRIPTED = f"net = torch.jit.script({PLAIN})"
#: How a script may train what `torch.jit` made: alone, beside its original, as a part of another model.
MODELS = {
    "scripted": SCRIPTED,
    "traced": f"net = torch.jit.trace({PLAIN}, x)",
    "scripted-beside-its-original": f"original = {PLAIN}\nnet = torch.jit.script(original)",
    "traced-beside-its-original": f"original = {PLAIN}\nnet = torch.jit.trace(original, x)",
    "scripted-part": f"net = torch.nn.Sequential({PLAIN}, torch.nn.Linear(1, 1))\nnet[0] = torch.jit.script(net[0])",
}


def made_by(how, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions deprecate both
        return torch.jit.trace(module, torch.ones(2, 3)) if how == "trace" else torch.jit.script(module)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_script_that_trains_it_runs_as_ever_and_is_recorded_without_its_activations(tmp_path, capsys, model):
    text = SCRIPT.format(model=model)
    alone = {}
    exec(compile(text, "train.py", "exec"), alone)
    capsys.readouterr()
    (tmp_path / "train.py").write_text(text)
    assert run_script(tmp_path / "train.py", (), store=tmp_path / "runs", config={"every": 1}) == 0
    assert capsys.readouterr().out.strip() == str(alone["losses"])
    with ms.open_store(tmp_path / "runs") as store:
        (run,) = store.runs()
        assert store.series(run.id, "", "scalar/loss").values.tolist() == pytest.approx(alone["losses"], rel=1e-6)
        first = "0.0.weight" if "net[0]" in model else "0.weight"
        for metric in ("gradient/l2_norm", "update/ratio_to_weight", "weight/std"):
            assert len(store.series(run.id, first, metric).values) == 5, metric
        assert not store.events(run.id, kind="monitor_fault")
        ((scripted,), whole) = store.events(run.id, kind="scripted"), "net[0]" not in model
        assert (scripted.site, scripted.data["modules"]) == ("" if whole else "0", 3 if "trace(" in model else 4)
        blocks = [block for record in store.replay(run.id) for block in record.blocks]
        called = {site for block in blocks if block.layout.subject == "activation" for site in block.layout.sites}
        assert called <= {""} if whole else called == {"", "1"}


@pytest.mark.parametrize("how", ["trace", "script"])
def test_a_module_of_torch_jit_can_be_watched_from_the_script(alike, how, caplog):
    def train(watching):
        torch.manual_seed(0)
        model = made_by(how, torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for _ in range(6):
                loss = model(torch.randn(2, 3)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, model

    with caplog.at_level(logging.WARNING):
        seen = alike(train, config={"every": 2, "nan_trace": True, "causality": True, "subjects": {"operator": 3}})
    assert seen.values("", "scalar/loss").tolist() == seen.losses[::2]
    assert len(seen.values("0.weight", "gradient/l2_norm")) == 3
    assert not seen.faults()
    assert ("is made by torch.jit.script, whose calls are not seen" in caplog.text) == (how == "script")


def test_a_traced_part_is_seen_at_its_boundary(tmp_path):
    model = torch.nn.Sequential(made_by("trace", torch.nn.Linear(3, 3)), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with ms.watch(model, optimizer, store=tmp_path, run="traced"):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    with ms.open_store(tmp_path) as store:
        assert len(store.series(store.find_run("traced").id, "0", "activation/mean").values) == 1


def test_what_fails_as_a_model_is_looked_for_does_not_reach_the_training(tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such network")

    monkeypatch.setattr(TorchFinder, "_trained_with", fail)
    (tmp_path / "train.py").write_text(SCRIPT.format(model=f"net = {PLAIN}"))
    assert run_script(tmp_path / "train.py", (), store=tmp_path / "runs") == 0
    out, err = capsys.readouterr()
    assert out.count(",") == 4
    assert "could not be taken up (RuntimeError: no such network); nothing was recorded" in err
