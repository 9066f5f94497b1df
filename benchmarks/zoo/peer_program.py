"""Runs a program of the zoo under another tool, not a line changed.

`python -m benchmarks.zoo.peer_program TOOL REPORT SCRIPT SEED`. These tools are two or three lines in a training loop.
Hooks of torch say them here where a person would: the tool is made at the first forward of a network that an optimizer
holds, is told each step with its loss, and is asked when the program has ended.
"""

import atexit
import json
import runpy
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..faults.outcome import Alarm
from ..faults.peer_tools import PEERS as TAUGHT
from ..faults.peer_tools import PeerWatcher

#: What words of NeuralDBG may mean.
_FAILURES: Final[Mapping[str, tuple[str, ...]]] = {
    "vanishing_gradients": ("vanishing_gradient", "frozen_parameter", "dead_units"),
    "exploding_gradients": ("exploding_gradient", "learning_rate_too_high"),
    "dead_neurons": ("dead_units",),
    "saturated_activations": ("saturated_activation",),
    "optimizer_instability": ("learning_rate_too_high", "loss_spike", "plateau", "learning_rate_too_low"),
    "data_anomaly": ("bad_batch", "unnormalized_input", "non_finite_activation"),
}
_SPIKES: Final = ("loss_spike", "bad_batch", "learning_rate_too_high")


class Training:
    """What the tools see of a training, with the names of `benchmarks.faults.script.Script`."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer, self.step = model, optimizer, 0

    def tensors(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a forward; a tool puts its own function here to see them."""
        return batch


class NeuralDbg:
    """Enters its context at the first step and is told every loss."""

    def __init__(self, training: Any) -> None:
        from neuraldbg import NeuralDbg

        self._debugger = NeuralDbg(training.model)
        self._debugger.__enter__()

    def log(self, scalars: Mapping[str, float], /) -> None:
        """It takes the loss alone."""

    def step_ends(self, step: int, loss: float) -> None:
        """Tell the loss and the step."""
        self._debugger.step = step
        self._debugger.record_loss(loss)

    def close(self, error: BaseException | None = None) -> None:
        """Leave its context."""
        self._debugger.__exit__(None, None, None)

    def alarms(self) -> tuple[Alarm, ...]:
        """Return a finding for each kind of failure of which it has a hypothesis."""
        found = [kind for kind in _FAILURES if self._debugger.explain_failure(kind)]
        return tuple(Alarm(kind, cause, "warning", "", 0, 0, 0) for kind in found for cause in _FAILURES[kind])


class TrainScope:
    """Is told the loss before each step of the optimizer and answers with the spike, if there is one."""

    def __init__(self, training: Any) -> None:
        from trainscope import TrainScope
        from trainscope.core.config import TrainScopeConfig

        self._scope = TrainScope(training.model, training.optimizer, config=TrainScopeConfig()).attach()
        self._spikes: list[int] = []

    def log(self, scalars: Mapping[str, float], /) -> None:
        """It takes the loss alone."""

    def step_ends(self, step: int, loss: float) -> None:
        """Tell the loss."""
        if self._scope.step(loss):
            self._spikes.append(step)

    def close(self, error: BaseException | None = None) -> None:
        """Take its hooks off."""
        self._scope.detach()

    def alarms(self) -> tuple[Alarm, ...]:
        """Return the first spike."""
        return tuple(Alarm("spike", cause, "warning", "", 0, at, at) for at in self._spikes[:1] for cause in _SPIKES)


PEERS: Final[Mapping[str, Any]] = {**TAUGHT, "neuraldbg": NeuralDbg, "trainscope": TrainScope}


class Attachment:
    """Makes the tool once it is clear what is trained, and tells it the steps."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._optimizers: list[Any] = []
        self._loss = float("nan")
        self._training: Training | None = None
        self.watcher: PeerWatcher | None = None

    def install(self) -> None:
        """Hook optimizers, forwards and backward passes."""
        intact, backward = torch.optim.Optimizer.__init__, torch.Tensor.backward

        def made(optimizer: Any, *args: Any, **options: Any) -> None:
            intact(optimizer, *args, **options)
            self._optimizers.append(optimizer)

        def differentiated(tensor: Any, *args: Any, **options: Any) -> Any:
            self._loss = float(tensor.detach().float().mean())
            return backward(tensor, *args, **options)

        torch.optim.Optimizer.__init__ = made  # type: ignore[method-assign]
        torch.Tensor.backward = differentiated  # type: ignore[assignment, method-assign]
        register_module_forward_pre_hook(self._forward)
        before = self._tool == "trainscope"
        (register_optimizer_step_pre_hook if before else register_optimizer_step_post_hook)(self._stepped)  # type: ignore[arg-type]

    def _forward(self, module: Any, args: tuple[Any, ...]) -> None:
        if self._training is None and module.training and torch.is_grad_enabled():
            held = {id(one): optimizer for optimizer in self._optimizers for one in _parameters(optimizer)}
            optimizer = next((held[id(one)] for one in module.parameters() if id(one) in held), None)
            if optimizer is not None:
                self._training = Training(module, optimizer)
                self.watcher = PEERS[self._tool](self._training)
        if self._training is not None and module is self._training.model and torch.is_grad_enabled():
            self._training.tensors(args)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._training is None or optimizer is not self._training.optimizer or self.watcher is None:
            return
        self.watcher.step_ends(self._training.step, self._loss)
        self._training.step += 1


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def main(tool: str, report: str, script: str, *arguments: str) -> None:
    """Run the program; write what the tool found when the process ends."""
    attached = Attachment(tool)
    attached.install()

    def end() -> None:
        alarms: tuple[Alarm, ...] = ()
        if attached.watcher is not None:
            attached.watcher.close()
            alarms = attached.watcher.alarms()
        Path(report).write_text(json.dumps([asdict(alarm) for alarm in alarms]), encoding="utf-8")

    atexit.register(end)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
