"""A module of a run is computed again from what the run has dumped, whatever framework it is of."""

import json

import ml_dtypes
import numpy as np
import pytest
import torch
from mindscope.cli.application import main
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.probe import watch
from mindscope.probe.errors import NotReplayable
from mindscope.probe.replay import CallReference, replay
from mindscope.storage import open_store

DUMP = {"every": 0, "subjects": {"loss": 1}, "dump": {"subjects": ["input", "activation", "weight"], "when": 2}}


class Attending(torch.nn.Module):
    """Two tensors in, one by keyword, a tuple out, and a weight under two names."""

    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(8, 8, bias=False)
        self.key = torch.nn.Linear(8, 8, bias=False)
        self.key.weight = self.query.weight

    def forward(self, x, *, mask):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 8**0.5 + mask
        shares = scores.softmax(-1)
        return shares @ x, shares


class Model(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(11, 8)
        self.attend = Attending()
        self.head = torch.nn.Linear(8, 4)
        self.to(dtype)

    def forward(self, tokens):
        x = self.embed(tokens)
        mask = torch.zeros(tokens.shape[1], tokens.shape[1], dtype=x.dtype)
        return self.head(self.attend(x, mask=mask)[0])


def torch_run(store, *, spoil=None, dtype=torch.float32, steps=3):
    """A run of the model; `spoil` changes the output of the head, as a wrong kernel would."""
    model = Model(dtype).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if spoil is not None:
        model.head.register_forward_hook(lambda _module, _inputs, output: spoil(output))
    tokens = torch.arange(6)[None] % 11
    with watch(model, optimizer, store=store, config=DUMP) as monitor:
        for _ in range(steps):
            optimizer.zero_grad()
            model(tokens).float().pow(2).mean().backward()
            optimizer.step()
    return monitor.run


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_modules_of_a_sound_run_are_right_within_rounding(tmp_path, dtype):
    with open_store(tmp_path) as store:
        run = torch_run(store, dtype=dtype)
        for site in ("embed", "attend", "head", "attend.query", ""):
            found = replay(store, run, Model(), CallReference(site))
            assert {one.verdict for one in found.outputs.values()} == {"rounding"}
            assert found.step == 2
        assert set(replay(store, run, Model(), CallReference("attend")).outputs) == {"", "[1]"}
        assert replay(store, run, torch.nn.Linear(8, 4), CallReference("head", step=0)).step == 0


def test_a_wrong_kernel_is_told_from_a_bad_input(tmp_path):
    def spoil(output):
        changed = output.clone()
        changed[0, 2, 1] *= 1.01
        return changed

    with open_store(tmp_path) as store:
        run = torch_run(store, spoil=spoil)
        found = replay(store, run, Model(), CallReference("head"))
        assert found.is_wrong
        assert (found.outputs[""].wrong, found.outputs[""].worst) == (1, (0, 2, 1))
        assert not replay(store, run, Model(), CallReference("attend")).is_wrong
        broken = torch_run(store, spoil=lambda output: output * float("nan"), steps=4)
        assert replay(store, broken, Model(), CallReference("head", step=0)).outputs[""].verdict == "wrong_kernel"
        assert replay(store, broken, Model(), CallReference("head")).outputs[""].verdict == "bad_weights"


def test_mixed_precision_is_judged_by_the_dtype_of_the_output(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 4)).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with open_store(tmp_path) as store:
        with watch(model, optimizer, store=store, config=DUMP) as monitor:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(torch.randn(5, 8)).float().pow(2).mean()
            loss.backward()
            optimizer.step()
        found = replay(store, monitor.run, torch.nn.Linear(8, 4), CallReference("0"))
    assert found.outputs[""].verdict == "rounding"
    assert found.outputs[""].dtype == "bfloat16"
    assert any("mixed precision" in note for note in found.notes)


def engine_run(store, spoil=False):
    net = nn.SequentialCell(nn.Dense(6, 5, key=Key(1)), nn.ReLU(), nn.LayerNorm((5,)), nn.Dropout(p=0.5)).set_train()
    if spoil:
        net[0].register_forward_hook(lambda _cell, _inputs, output: output * Tensor(np.float32(1.001)))
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    x = Tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
    with watch(net, optimizer, store=store, config=DUMP) as monitor:
        optimizer.zero_grad()
        (net(x) ** 2).mean().backward()
        optimizer.step()
    return monitor.run


def test_cells_of_the_engine_are_replayed_too(tmp_path):
    def build():
        return nn.SequentialCell(nn.Dense(6, 5, key=Key(7)), nn.ReLU(), nn.LayerNorm((5,)), nn.Dropout(p=0.5))

    with open_store(tmp_path) as store:
        run = engine_run(store)
        for site in ("0", "1", "2"):
            assert replay(store, run, build(), CallReference(site)).outputs[""].verdict == "rounding"
        with pytest.raises(NotReplayable, match="draws random numbers"):
            replay(store, run, build(), CallReference("3"))
        wrong = replay(store, engine_run(store, spoil=True), nn.Dense(6, 5), CallReference("0"))
        assert wrong.is_wrong
        assert wrong.outputs[""].max_rel == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize(
    ("asked", "module", "words"),
    [
        (
            CallReference("head", step=1),
            None,
            "inputs at steps 0, 2 and outputs at steps 0, 2 of 'head'.*not both at step 1",
        ),
        (CallReference("hat"), None, "has no module 'hat'; did you mean 'head'"),
        (CallReference("head"), torch.nn.Linear(9, 4), r"recorded in shape \(4, 8\), the module has \(4, 9\)"),
        (CallReference("head"), torch.nn.Bilinear(8, 8, 4), "recorded in shape"),
        (
            CallReference("embed"),
            torch.nn.ModuleDict({"other": torch.nn.Linear(1, 1)}),
            "'other.weight' of 'embed' was not dumped",
        ),
        (CallReference("head"), 3, "one that can be called, got int"),
    ],
)
def test_what_cannot_be_replayed_says_why(tmp_path, asked, module, words):
    with open_store(tmp_path) as store:
        run = torch_run(store)
        with pytest.raises(NotReplayable, match=words):
            replay(store, run, Model() if module is None else module, asked)


def test_a_module_that_the_run_does_not_have_is_answered_with_the_nearest(tmp_path):
    with open_store(tmp_path) as store:
        run = torch_run(store)
        with pytest.raises(NotReplayable, match=r"has no module 'hed'; did you mean 'head'\?"):
            replay(store, run, Model(), CallReference("hed"))
        with pytest.raises(NotReplayable, match=r"holds no tensors of 'head' \(call 7.*\); to replay it, dump"):
            replay(store, run, Model(), CallReference("head", call=7))


def test_the_command_prints_the_verdict_and_exits_with_it(tmp_path, capsys):
    factory = tmp_path / "made.py"
    factory.write_text(
        "import torch\n\ndef head():\n    return torch.nn.Linear(8, 4)\n\ndef broken():\n    raise KeyError('lost')\n"
    )
    with open_store(tmp_path / "runs") as store:
        run = torch_run(store)
    place = ["--store", str(tmp_path / "runs")]
    assert main(["replay", run.id, "head", "--module", f"{factory}:head", *place, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["outputs"][""]["verdict"] == "rounding"
    assert main(["replay", run.id, "head", "--module", f"{factory}:head", *place]) == 0
    assert "right: the output follows from inputs and weights" in capsys.readouterr().out
    assert main(["replay", run.id, "head", "--module", f"{factory}:broken", *place]) == 2
    assert f"makes no model: {factory}, line 7, KeyError: 'lost'" in capsys.readouterr().err
    assert main(["replay", run.id, "nowhere", "--module", f"{factory}:broken", *place]) == 2
    assert "has no module 'nowhere'" in capsys.readouterr().err


def test_bfloat16_goes_into_torch_and_back_bit_for_bit():
    from mindscope.probe.replay.torch_execution import TorchExecution

    data = np.random.default_rng(0).normal(size=(3, 4)).astype(ml_dtypes.bfloat16)
    execution = TorchExecution(lambda x: x, "", training=True, options={})
    assert execution.outputs({}, {"[0]": data})[""].tobytes() == data.tobytes()
