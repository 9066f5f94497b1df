"""Warnings of a watched program are those of the unwatched one: at its own lines, as often."""

import re
import subprocess
import sys
import threading
import traceback
import warnings

import pytest
import torch
from mindscope.probe.checks.function_mode import FunctionMode
from mindscope.probe.warning_places import skipped_by_warnings, without_warnings
from torch.nn import functional

#: Warns by its losses, at its own lines and in a module of torch; by its schedule; and in C.
SCRIPT = """
import torch
from torch import nn
from torch.nn import functional
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
inputs = torch.randn(64, 8)
targets = inputs.sum(1)
schedule.step()
smooth = nn.SmoothL1Loss()
for step in range(60):
    optimizer.zero_grad()
    answers = model(inputs)
    answers.grad
    loss = functional.mse_loss(
        answers,
        targets,
    ) + smooth(answers, targets)
    if step > 30:
        loss = loss + functional.l1_loss(answers, targets)
    loss.backward()
    optimizer.step()
    schedule.step(step)
functional.softmax(answers)
functional.kl_div(functional.log_softmax(answers, dim=1), torch.rand(64, 1), reduction="mean")
"""


def shown(command, folder):
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=True)
    told = done.stderr.replace(f"{folder}/", "")
    return re.findall(r"^(.*:\d+: \w*Warning: .{40}).*\n(.*)", told, re.MULTILINE)


def test_a_watched_program_shows_the_warnings_of_the_unwatched_one(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    alone = shown(["train.py"], tmp_path)
    assert len(alone) >= 7
    assert shown(["-m", "mindscope", "run", "--store", "runs", "--", "train.py"], tmp_path) == alone


@skipped_by_warnings
def _between(work):
    return work()


def test_a_traceback_through_a_skipped_frame_shows_its_line():
    with pytest.raises(ZeroDivisionError) as caught:
        _between(lambda: 1 / 0)
    told = "".join(traceback.format_exception(caught.value))
    assert f"{__file__} [not counted by warnings" in told
    assert "return work()" in told


def test_a_traceback_through_a_mode_has_no_invented_frame():
    mode = FunctionMode()
    assert mode.begin()
    try:
        with pytest.raises(ValueError, match="batch_size") as caught:
            functional.cross_entropy(torch.zeros(3, 2), torch.zeros(4).long())
    finally:
        mode.leave()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "cross_entropy"
    assert "called_by_mindscope" not in names
    assert names.count("test_a_traceback_through_a_mode_has_no_invented_frame") == 1


def test_what_is_called_once_more_neither_warns_nor_counts_as_shown():
    def warn():
        warnings.warn("of the program", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("once")
        filters = list(warnings.filters)
        with without_warnings():
            warn()
            other = threading.Thread(target=lambda: warnings.warn("of another thread", UserWarning, stacklevel=1))
            other.start()
            other.join()
        assert [str(warning.message) for warning in found] == ["of another thread"]
        assert warnings.filters == filters
        warn()
        warn()
    assert [str(warning.message) for warning in found] == ["of another thread", "of the program"]
