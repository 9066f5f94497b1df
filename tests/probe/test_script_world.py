"""A script under `mindscope run` sees the world that `python script.py` shows it."""

import json
import os
import subprocess
import sys

import pytest
from mindscope.probe.late_import import ImportWatch
from mindscope.watching import run_script

#: Writes everything that a script can read of its own start, and what became of its log, warnings and functions.
PROBE = '''
"""A document."""
import builtins, gc, json, logging, multiprocessing, os, pickle, random, signal, sys, threading, warnings

def double(value):
    return 2 * value

def world():
    return {
        "start": [sys.argv, sys.orig_argv[1:], sys.path, os.getcwd(), sys.warnoptions, repr(sys.flags)],
        "main": {name: repr(value) for name, value in globals().items() if name in NAMES},
        "names": sorted(name for name in globals() if name.startswith("__")),
        "module": getattr(__spec__, "name", None),
        "loader": [type(__loader__).__name__, __loader__.name, __loader__.path],
        "is main": [vars(sys.modules["__main__"]) is globals(), __builtins__ is builtins],
        "function": [pickle.dumps(double).hex(), double.__code__.co_filename],
        "root logger": [repr(logging.root.handlers), logging.root.level, logging.root.disabled, logging.root.filters],
        "logging": [repr(logging.lastResort), logging.Logger.manager.disable, logging.getLoggerClass().__name__],
        "warnings": [warnings.showwarning.__module__, warnings.formatwarning.__module__],
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__,
                  sys.unraisablehook is sys.__unraisablehook__, threading.excepthook is threading.__excepthook__],
        "traces": [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()],
        "garbage": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_freeze_count()],
        "signals": {number.name: repr(signal.getsignal(number)) for number in signal.Signals},
        "streams": [repr(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "environment": {name: value for name, value in os.environ.items() if name not in ("OUT", "_")},
        "threads": [thread.name for thread in threading.enumerate()],
        "processes": multiprocessing.get_start_method(allow_none=True),
    }

NAMES = ("__name__", "__file__", "__package__", "__cached__", "__doc__", "__annotations__")
if __name__ == "__main__":
    random.seed(0)
    seen = {"before": world(), "torch": "torch" in sys.modules}
    import numpy, torch
    numpy.random.seed(0)
    seen |= {"after": world(), "filters": [repr(entry) for entry in warnings.filters], "errors": numpy.geterr()}
    seen["settings"] = [torch.get_num_threads(), str(torch.get_default_dtype()), torch.is_grad_enabled()]
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    trained = world()
    del trained["threads"]  # the monitor writes on one of its own
    seen["trained"] = trained, model.weight.tolist(), torch.rand(3).tolist()
    seen["python"] = random.random(), numpy.random.random()
    logging.basicConfig(level=logging.INFO, format="LOG %(message)s")
    logging.info("mine")
    warnings.warn("mine as well")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seen["spawned"] = pool.map(double, [1, 2])
    with open(os.environ["OUT"], "w") as stream:
        json.dump(seen, stream)
'''


def world(folder, *words):
    """Run the command; return what the probe saw, and the lines on stderr that are not ours."""
    seen = folder / "seen.json"
    environment = {**os.environ, "OUT": str(seen)}
    told = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    document = json.loads(seen.read_text())
    seen.unlink()
    shown = [line for line in told.stderr.splitlines() if not line.startswith("mindscope: ")]
    return document, shown


@pytest.mark.parametrize(
    "words", [("probe.py", "a", "--b"), ("./part/../link.py",), ("-m", "probe", "-c")], ids=["file", "link", "module"]
)
def test_a_script_sees_the_world_that_python_shows_it(tmp_path, words):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "real.py").write_text(PROBE)
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "link.py").symlink_to(tmp_path / "part" / "real.py")
    bare, shown = world(tmp_path, *words)
    watched, also_shown = world(tmp_path, "-m", "mindscope", "run", "--store", "runs", "--", *words)
    assert bare["spawned"] == [2, 4]
    assert "LOG mine" in shown
    assert any("mine as well" in line for line in shown)
    assert watched == bare
    assert also_shown == shown


def test_a_file_beside_the_script_hides_a_module_that_we_have_loaded(tmp_path, capsys):
    import statistics  # noqa: F401  as something of ours may have done

    (tmp_path / "statistics.py").write_text("WORD = 'own'")
    (tmp_path / "train.py").write_text("import statistics\nprint(statistics.WORD)")
    assert run_script(tmp_path / "train.py", (), store=tmp_path / "runs") == 0
    assert capsys.readouterr().out == "own\n"
    assert hasattr(sys.modules["statistics"], "median")


def test_a_thread_that_outlives_the_script_finds_its_main_module(tmp_path):
    text = (
        "import pathlib, pickle, threading, time\n"
        "def end():\n    return 1\n"
        "def work():\n"
        "    threading.main_thread().join(0.2)\n"
        "    pathlib.Path(__file__).with_name('out').write_bytes(pickle.dumps(end))\n"
        "threading.Thread(target=work).start()\n"
    )
    (tmp_path / "train.py").write_text(text)
    assert run_script(tmp_path / "train.py", (), store=tmp_path / "runs") == 0
    assert b"__main__" in (tmp_path / "out").read_bytes()


@pytest.fixture
def plain_hook(monkeypatch):
    """Python's own hook: torch.distributed leaves one that marks each line with the rank, once it was in use."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


@pytest.mark.usefixtures("plain_hook")
def test_an_error_of_the_compiler_is_shown_without_our_frames(tmp_path, capsys):
    (tmp_path / "train.py").write_text("x = (\n")
    assert run_script(tmp_path / "train.py", (), store=tmp_path / "runs") == 1
    told = capsys.readouterr().err
    assert told.startswith(f'  File "{tmp_path / "train.py"}", line 1')
    assert "script_world" not in told


@pytest.mark.usefixtures("plain_hook")
def test_an_interrupt_is_shown_as_python_shows_it(tmp_path, capsys):
    (tmp_path / "train.py").write_text("raise KeyboardInterrupt\n")
    assert run_script(tmp_path / "train.py", (), store=tmp_path / "runs") == 130
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):\n")


def test_an_import_is_told_once_and_the_package_keeps_its_own_loader(tmp_path, monkeypatch):
    (tmp_path / "package_to_come.py").write_text("WORD = 1")
    monkeypatch.syspath_prepend(tmp_path)
    told = []
    watch = ImportWatch("package_to_come", lambda: told.append("package_to_come" in sys.modules))
    assert told == []
    import package_to_come

    assert (told, package_to_come.WORD) == ([True], 1)
    assert "exec_module" not in vars(package_to_come.__loader__)
    assert watch not in sys.meta_path
    ImportWatch("package_to_come", lambda: told.append("at once"))
    assert told == [True, "at once"]
    del sys.modules["package_to_come"]
