"""Other tools that watch a training, attached as their own documentation says; each is imported where it is used."""

import json
import os
from pathlib import Path
from typing import Any

from .tool import Attached

_NEVER = 10**8
_OPERATIONS = ["norm", "mean", "min", "max", "zeros", "nans"]


def msprobe(model: Any, optimizer: Any, row: str, folder: str) -> Attached:
    """The monitor of msprobe, writing CSV, with six of its statistics."""
    sees_all = row != "gradients"
    config = {
        "targets": {},
        "format": "csv",
        "ops": _OPERATIONS,
        "ndigits": 6,
        "all_xy": sees_all,
        "xy_distribution": sees_all,
        "mv_distribution": sees_all,
        "param_distribution": sees_all,
        "wg_distribution": True,
        "step_interval": 10 if row == "every 10th" else 1,
        "start_step": _NEVER if row == "nothing due" else 0,
    }
    path = Path(folder) / "monitor.json"
    path.write_text(json.dumps(config))
    os.environ["MONITOR_OUTPUT_DIR"] = folder
    from msprobe.pytorch import TrainerMon

    monitor = TrainerMon(str(path), params_have_main_grad=False)
    monitor.set_monitor(model, optimizer)
    return Attached()


def trainscope(model: Any, optimizer: Any, row: str, folder: str) -> Attached:
    """trainscope with activations at every step it traces; histograms as often as it has them by default."""
    every = {"every 10th": 10, "nothing due": _NEVER}.get(row, 1)
    return _trainscope(
        model, optimizer, run_dir=folder, trace_every_n_steps=every, activation_metrics_every_n_steps=every
    )


def trainscope_default(model: Any, optimizer: Any, _row: str, folder: str) -> Attached:
    """trainscope as it comes: activations every 5th step."""
    return _trainscope(model, optimizer, run_dir=folder)


def torchmortem(model: Any, optimizer: Any, row: str, _folder: str) -> Attached:
    """The collectors of torchmortem; the diagnosis, which it makes at the end, is left out of the account."""
    from torchmortem import Autopsy, SamplingConfig

    interval = 10 if row == "every 10th" else 1
    autopsy = Autopsy(model, optimizer=optimizer, sampling=SamplingConfig(interval, max(20, interval)))
    autopsy.attach()
    return Attached(after_step=lambda loss: autopsy.step(loss=loss.item()))


def _trainscope(model: Any, optimizer: Any, **options: Any) -> Attached:
    from trainscope import TrainScope
    from trainscope.core.config import TrainScopeConfig

    scope = TrainScope(model, optimizer, config=TrainScopeConfig(**options)).attach()
    return Attached(after_backward=lambda loss: scope.step(loss.item()))
