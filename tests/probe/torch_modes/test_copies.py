"""A watched model can be copied, pickled and saved as if nobody watched; nothing is left on it afterwards."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn
EVERYTHING = {"subjects": {"input": 1, "input_grad": 1, "gradient/unreduced": 1}, "nan_trace": True}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def step(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.fixture
def watched():
    """(monitor, model, optimizer, store) in the middle of a training, with every hook there is."""
    model, store = network(), open_store("memory:")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    with watch(model, optimizer, store=store, config=EVERYTHING) as monitor:
        step(model, optimizer)
        yield monitor, model, optimizer, store


def calls(store, run):
    return sum(b.layout.subject == "activation" for record in store.replay(run) for b in record.blocks)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
def test_a_copy_trains_alone_and_the_original_is_watched_on(watched, how):
    monitor, model, optimizer, store = watched
    if how == "deepcopy":
        twin, of_twin = copy.deepcopy((model, optimizer))
    elif how == "pickle":
        twin, of_twin = pickle.loads(pickle.dumps((model, optimizer)))
    else:
        torch.save((model, optimizer), file := io.BytesIO())
        file.seek(0)
        twin, of_twin = torch.load(file, weights_only=False)
    for _ in range(5):
        step(twin, of_twin)
    assert monitor.step == 1
    step(model, optimizer)
    monitor.flush()
    assert monitor.step == 2
    assert calls(store, monitor.run.id) == 2
    with watch(twin, of_twin, store=store) as other:  # and can be watched itself
        step(twin, of_twin)
    assert other.step == 1


def test_what_was_pickled_under_a_monitor_loads_where_there_is_none(watched, tmp_path):
    _, model, _, _ = watched
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    program = (
        "import pickle, sys, torch; model = pickle.load(open(sys.argv[1], 'rb'));"
        "model(torch.ones(1, 4)).sum().backward();"
        "print([name for name in sys.modules if name.partition('.')[0] == 'mindscope'])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "model.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_state_dict_is_that_of_the_model_alone(watched):
    _, model, optimizer, _ = watched
    alone = network()
    of_alone = torch.optim.AdamW(alone.parameters(), 1e-2)
    step(alone, of_alone)
    saved, expected = io.BytesIO(), io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], saved)
    torch.save([alone.state_dict(), of_alone.state_dict()], expected)
    assert saved.getvalue() == expected.getvalue()


def hooks(model, optimizer):
    """Everything that torch keeps of hooks, and the functions that a monitor replaces."""
    from torch.nn.modules import module
    from torch.optim import optimizer as optimizers

    of_modules = [
        len(held)
        for one in model.modules()
        for name, held in vars(one).items()
        if name.endswith(("_hooks", "_hooks_with_kwargs", "_always_called"))
    ]
    of_parameters = [len(one._backward_hooks or ()) for one in model.parameters()]
    of_optimizer = [len(held) for name, held in vars(optimizer).items() if name.endswith("_hooks")]
    of_all = [
        len(held) for name, held in vars(module).items() if name.startswith("_global") and hasattr(held, "__len__")
    ]
    of_all += [len(held) for name, held in vars(optimizers).items() if name.startswith("_global")]
    replaced = [torch.autograd.backward, torch.amp.GradScaler.scale, torch.amp.GradScaler.step]
    return of_modules, of_parameters, of_optimizer, of_all, replaced


def test_monitors_of_every_kind_leave_no_hook():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    before, names = hooks(model, optimizer), set(vars(model)) | set(vars(optimizer))
    store = open_store("memory:")
    for number in range(40 if os.environ.get("MINDSCOPE_TEST_ALL") else 6):
        given = None if number % 2 else optimizer
        with watch(model, given, store=store, config=EVERYTHING if number % 3 else None) as monitor:
            step(model, optimizer)
        assert monitor.step == 1
    assert hooks(model, optimizer) == before
    assert set(vars(model)) | set(vars(optimizer)) == names
