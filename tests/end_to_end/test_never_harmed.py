"""The run is never harmed: whatever happens to store, listeners or monitor, the training goes on as it was."""

import errno
import shutil
import subprocess
import sys

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.storage import MemoryStore

STEPS = 30
GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.uniform(0, 1, (STEPS, 32, 12)).astype(np.float32)
LABELS = GENERATOR.integers(0, 4, (STEPS, 32))


def network():
    """A network and its optimizer."""
    cell = nn.SequentialCell(nn.Dense(12, 16, key=Key(0)), nn.ReLU(), nn.Dense(16, 4, key=Key(1))).set_train()
    return cell, nn.Adam(cell.trainable_params(), learning_rate=0.01)


def steps(cell, optimizer, accident=None):
    """Losses of a training; the accident is called after the tenth step."""
    losses = []
    for number, (x, y) in enumerate(zip(INPUTS, LABELS, strict=True)):
        optimizer.zero_grad()
        loss = ops.cross_entropy(cell(Tensor(x)), Tensor(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if number == 10 and accident is not None:
            accident()
    return losses


@pytest.fixture(scope="module")
def undisturbed():
    """Losses of the training that nobody watches."""
    return steps(*network())


def test_a_store_that_is_deleted_costs_observations_only(undisturbed, tmp_path):
    cell, optimizer = network()
    with ms.watch(cell, optimizer, store=str(tmp_path / "runs")) as monitor:

        def delete():
            monitor.flush()
            shutil.rmtree(tmp_path / "runs")

        assert steps(cell, optimizer, delete) == undisturbed
        monitor.flush()
        assert "was deleted" in str(monitor.fault)


def test_a_full_disk_costs_observations_only_and_is_told_once(undisturbed, caplog):
    class FullDisk(MemoryStore):
        is_full = False

        def begin_run(self, *arguments, **options):
            writer = super().begin_run(*arguments, **options)
            write = writer.write

            class Writer(type(writer)):
                def write(_, records, findings=()):
                    if self.is_full:
                        raise OSError(errno.ENOSPC, "No space left on device")
                    write(records, findings)

            writer.__class__ = Writer
            return writer

    store = FullDisk()
    cell, optimizer = network()
    with ms.watch(cell, optimizer, store=store) as monitor:

        def fill():
            monitor.flush()
            store.is_full = True

        assert steps(cell, optimizer, fill) == undisturbed
        monitor.flush()
        assert isinstance(monitor.fault, OSError)
        store.is_full = False
    assert caplog.text.count("the store cannot be written") == 1
    assert "No space left on device" in caplog.text
    (run,) = store.runs()
    assert (run.state, len(store.series(run.id, "", "scalar/loss").steps) >= 10) == ("finished", True)


def test_a_listener_that_fails_is_switched_off_and_reported(undisturbed):
    class Failing:
        calls = 0

        def begin(self, run, structure):
            pass

        def observe(self, record):
            self.calls += 1
            raise ZeroDivisionError("no such luck")

        def end(self):
            return ()

    store, listener = MemoryStore(), Failing()
    cell, optimizer = network()
    with ms.watch(cell, optimizer, store=store, listeners=[listener]) as monitor:
        assert steps(cell, optimizer) == undisturbed
    assert listener.calls == 1
    (fault,) = store.events(monitor.run.id, kind="monitor_fault")
    assert "no such luck" in str(fault.data)
    assert len(store.series(monitor.run.id, "", "scalar/loss").steps) == STEPS


def test_an_exception_in_the_loop_is_recorded_and_passed_on():
    store = MemoryStore()
    cell, optimizer = network()

    def fail():
        raise RuntimeError("no more data")

    with pytest.raises(RuntimeError, match="no more data"), ms.watch(cell, optimizer, store=store):
        steps(cell, optimizer, fail)
    (run,) = store.runs()
    assert (run.state, run.error, run.last_step) == ("failed", "RuntimeError: no more data", 10)


def test_forty_monitors_one_after_the_other_leave_no_trace(undisturbed):
    store = MemoryStore()
    cell, optimizer = network()
    state = _hooks(cell, optimizer)
    for _ in range(40):
        with ms.watch(cell, optimizer, store=store):
            assert _hooks(cell, optimizer) != state
    assert _hooks(cell, optimizer) == state
    assert steps(cell, optimizer) == undisturbed
    assert len(store.runs()) == 40


def test_forty_monitors_leave_no_trace_on_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(module.parameters())
    before = _torch_hooks(module, optimizer)
    with MemoryStore() as store:
        for _ in range(40):
            with ms.watch(module, optimizer, store=store):
                assert _torch_hooks(module, optimizer) != before
    assert _torch_hooks(module, optimizer) == before


SCRIPT = """
import sys
import numpy as np
import mindscope as ms
from mindscope.framework import Key, Tensor, nn, ops
cell = nn.Dense(4, 3, key=Key(0)).set_train()
optimizer = nn.SGD(cell.trainable_params(), learning_rate=0.1)
monitor = ms.watch(cell, optimizer, store=sys.argv[1], run="script")
for _ in range(5):
    optimizer.zero_grad()
    ops.cross_entropy(cell(Tensor(np.ones((2, 4), np.float32))), Tensor(np.array([0, 1]))).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("end", "code", "state", "error"),
    [
        ("", 0, "finished", ""),
        ("raise KeyError('tokenizer')", 1, "failed", "KeyError: 'tokenizer'"),
        ("raise KeyboardInterrupt", 130, "failed", "KeyboardInterrupt"),
    ],
    ids=["its end", "an error", "ctrl-c"],
)
def test_a_script_that_never_closes_its_monitor_leaves_a_complete_run(end, code, state, error, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + end, str(tmp_path / "runs")], capture_output=True, text=True, check=False
    )
    assert done.returncode in (code, -2 if code == 130 else code), done.stderr
    with ms.open_store(str(tmp_path / "runs")) as store:
        run = store.find_run("script")
        assert (run.state, run.last_step) == (state, 4)
        assert error in run.error


def _hooks(cell, optimizer):
    """What a monitor could leave on an engine training."""
    counts = []
    for _, part in cell.cells_and_names():
        hooks = part._cell_hooks
        kinds = ("forward", "forward_pre", "backward", "backward_pre")
        counts.append(0 if hooks is None else sum(len(getattr(hooks, kind)) for kind in kinds))
    attributes = {name: len(value) for name, value in vars(optimizer).items() if "hook" in name}
    return counts, attributes, [len(parameter._hooks or ()) for parameter in cell.get_parameters()]


def _torch_hooks(module, optimizer):
    """What a monitor could leave on a torch training."""
    parts = [*module.modules(), optimizer, *module.parameters()]
    return [
        {name: len(value or ()) for name, value in vars(part).items() if "hook" in name and hasattr(value, "__len__")}
        for part in parts
    ] + [sorted(vars(part)) for part in (module, optimizer)]
