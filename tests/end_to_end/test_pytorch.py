"""PyTorch as a user writes it: the README's two lines, and an unchanged script under `mindscope run`."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch is not installed: pip install 'mindscope[torch]'"
)

_TRAINING = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
"""

_STEPS = """
for step in range(20):
    x = torch.randn(64, 8)
    y = (x.sum(1) > 0).long()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""

_WATCH = "monitor = ms.watch(model, optimizer, store='runs/', run='two-lines')"
TWO_LINES = f"import torch\nimport mindscope as ms\n{_TRAINING}{_WATCH}\n{_STEPS}"

_END = """
print('arguments', sys.argv[1:], __name__)
if 'fail' in sys.argv:
    raise ValueError('no more data')
sys.exit(7 if 'seven' in sys.argv else 0)
"""
UNCHANGED = f"import sys\nimport torch\n{_TRAINING}{_STEPS}{_END}"


def _shown(finish: Callable, run: str) -> dict:
    return json.loads(finish("show", run, "--json").stdout)


def test_two_lines_watch_a_pytorch_training(finish: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWO_LINES)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shown = _shown(finish, "two-lines")
    assert (shown["state"], shown["last_step"]) == ("finished", 19)
    assert shown["framework"].startswith("torch")
    assert shown["loss"]["steps"] == list(range(20))
    subjects = {metric.rpartition("/")[0] for metric in shown["metrics"]}
    assert subjects >= {"activation", "activation_grad", "weight", "gradient", "update", "optimizer/exp_avg"}


def test_an_unchanged_script_is_watched_and_keeps_its_arguments_and_exit_code(finish: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNCHANGED)
    done = finish("run", "--name", "mine", "--", "train.py", "--lr", "3", "seven")
    assert done.returncode == 7, done.stderr
    assert "arguments ['--lr', '3', 'seven'] __main__" in done.stdout
    shown = _shown(finish, "mine")
    assert shown["loss"]["steps"] == list(range(20))


def test_a_script_that_fails_shows_its_own_traceback_and_the_run_says_why(finish: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNCHANGED)
    done = finish("run", "train.py", "fail")
    assert done.returncode == 1
    assert "ValueError: no more data" in done.stderr
    assert "Traceback" in done.stderr
    shown = _shown(finish, "train")
    assert shown["state"] == "failed"
    assert "no more data" in shown["error"]
