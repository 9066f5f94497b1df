"""Other tools as watchers of a script, each used as its manual says, and what their words mean in ours."""

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from .outcome import Alarm
from .script import Script, Watcher

_EXPLODES = ("exploding_gradient", "learning_rate_too_high")
_RATE = ("learning_rate_too_high", "learning_rate_too_low", "missing_optimizer_step")
_NON_FINITE = ("non_finite_activation", "non_finite_gradient", "non_finite_loss")

#: What a tool's word may mean; a word that is not here names no cause.
_MEANINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "gradient_flow": ("vanishing_gradient", "exploding_gradient"),
    "dead_units": ("dead_units",),
    "saturation": ("saturated_activation",),
    "update_ratio": _RATE,
    "loss_dynamics": ("plateau", "loss_spike", "learning_rate_too_high", "wrong_loss_sign"),
    "weight_norm": ("weight_decay_too_high", "exploding_gradient", "bad_initialization"),
    "TA100": _NON_FINITE,
    "TA102": _EXPLODES,
    "TA103": ("dead_units", "frozen_parameter", "expert_starvation"),
    "TA104": ("frozen_parameter", "missing_optimizer_step"),
    "TA105": ("dead_units",),
    "TA301": ("unnormalized_input", "bad_batch"),
    "TA302": ("bad_batch",),
    "TA305": ("bad_batch", "non_finite_activation"),
    "TA500": ("frozen_parameter", "expert_starvation"),
    "non-finite gradients": _NON_FINITE,
    "vanished": ("vanishing_gradient", "frozen_parameter", "dead_units", "expert_starvation"),
    "very large": _EXPLODES,
    "ratio is high": ("learning_rate_too_high", "missing_warmup"),
    "ratio is tiny": ("learning_rate_too_low", "missing_optimizer_step"),
    "no gradients found": ("frozen_parameter", "missing_optimizer_step"),
    "non-finite values": ("bad_batch", "non_finite_activation"),
    "abs max": ("unnormalized_input", "bad_batch"),
    "nearly constant": ("uninformative_labels", "bad_batch"),
    "dominant class": ("uninformative_labels", "bad_batch"),
    "nan_inf": _NON_FINITE,
    "loss_spike": ("loss_spike", "bad_batch", "learning_rate_too_high"),
    "divergence": ("learning_rate_too_high", "wrong_loss_sign"),
    "overfit_onset": ("overfitting", "train_val_shift"),
    "stagnation": ("plateau", "learning_rate_too_low", "uninformative_labels", "missing_optimizer_step"),
}


class PeerWatcher(Watcher, Protocol):
    """A watcher that can be asked what it has found once the training is over."""

    def alarms(self) -> tuple[Alarm, ...]:
        """Warnings and worse, the gravest first."""


def _alarms(rule: str, step: int, sites: list[str], severity: str) -> list[Alarm]:
    causes = _MEANINGS.get(rule, ("",))
    return [Alarm(rule, cause, severity, site, 0, step, step) for site in sites or [""] for cause in causes]


def _first_optimizer(script: Script) -> Any:
    """The one optimizer that such a tool takes; the first where a script has several."""
    return script.optimizer[0] if isinstance(script.optimizer, list) else script.optimizer


class Torchmortem:
    """Collects while the model trains and judges at the end."""

    def __init__(self, script: Script) -> None:
        from torchmortem import Autopsy

        self._autopsy = Autopsy(script.model, optimizer=_first_optimizer(script))
        self._autopsy.attach()
        self._last = 0

    def log(self, scalars: Mapping[str, float], /) -> None:
        """Nothing: it takes the loss alone."""

    def step_ends(self, step: int, loss: float) -> None:
        """Nothing; the step is counted."""
        self._last = step
        self._autopsy.step(loss=loss)

    def close(self, error: BaseException | None = None) -> None:
        """Nothing; hooks off, detectors run."""
        self._autopsy.detach()

    def alarms(self) -> tuple[Alarm, ...]:
        """Warnings and criticals, with their layers; a finding is said once the run is over."""
        report = self._autopsy.get_report()
        found = [one for one in (report.findings if report else ()) if one.severity.name in ("WARNING", "CRITICAL")]
        found.sort(key=lambda one: -int(one.severity))
        return tuple(
            alarm
            for one in found
            for alarm in _alarms(one.category, self._last, list(one.affected_layers), one.severity.name)
        )


class TorchAudit:
    """Patches the forward and the optimizer's step, and checks at every one."""

    def __init__(self, script: Script) -> None:
        from torch_audit import autopatch

        self._auditor = autopatch(script.model, optimizer=_first_optimizer(script), every_n_steps=1, reporters=[])
        self._found: list[Any] = []

    def log(self, scalars: Mapping[str, float], /) -> None:
        """Nothing: it takes no scalars."""

    def step_ends(self, step: int, loss: float) -> None:
        """Nothing: it sees the optimizer."""

    def close(self, error: BaseException | None = None) -> None:
        """Nothing; the result is taken, the patches are off."""
        self._found = list(self._auditor.finish(report=False).findings)
        self._auditor.unpatch()

    def alarms(self) -> tuple[Alarm, ...]:
        """Everything from WARN on."""
        ranks = {"FATAL": 0, "ERROR": 1, "WARN": 2}
        found = [one for one in self._found if one.severity.value in ranks]
        found.sort(key=lambda one: (ranks[one.severity.value], one.step or 0))
        return tuple(
            alarm
            for one in found
            for alarm in _alarms(one.rule_id, one.step or 0, [one.module_path or ""], one.severity.value)
        )


class Traintools:
    """Gradients before every step, and every batch."""

    def __init__(self, script: Script) -> None:
        from traintools import BatchInspector, GradientHealthMonitor

        self._gradients, self._batches = GradientHealthMonitor(), BatchInspector()
        self._script, self._found = script, list[Alarm]()
        self._handle = _first_optimizer(script).register_step_pre_hook(self._before_step)
        intact = script.tensors

        def tensors(batch: Any) -> Any:
            made = intact(batch)
            report = self._batches.inspect(made[0], made[1] if len(made) > 1 else None, step=script.step)
            self._take(report.warnings)
            return made

        script.tensors = tensors  # type: ignore[method-assign]

    def log(self, scalars: Mapping[str, float], /) -> None:
        """Nothing: it takes no scalars."""

    def step_ends(self, step: int, loss: float) -> None:
        """Nothing: it was asked before the step."""

    def close(self, error: BaseException | None = None) -> None:
        """Nothing; the hook is off."""
        self._handle.remove()

    def alarms(self) -> tuple[Alarm, ...]:
        """In the order in which they were raised."""
        return tuple(self._found)

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        rate = float(optimizer.param_groups[0]["lr"])
        self._take(self._gradients.inspect(self._script.model, step=self._script.step, lr=rate).warnings)

    def _take(self, warnings: list[str]) -> None:
        for words in warnings:
            rule = next((known for known in _MEANINGS if known in words), words.partition("(")[0])
            name = words.split(" ")[0]
            site = name.rpartition(".")[0] if "gradient" in words or "ratio is high" in words else ""
            self._found += _alarms(rule, self._script.step, [site], "warning")


class Losslint:
    """Reads the log of the run when it is over."""

    def __init__(self, script: Script) -> None:
        self._script, self._rows = script, list[dict[str, Any]]()
        self._logged: dict[str, float] = {}

    def log(self, scalars: Mapping[str, float], /) -> None:
        """Nothing; the losses of the evaluation go into the log."""
        self._logged.update(scalars)

    def step_ends(self, step: int, loss: float) -> None:
        """Nothing; a line of the log."""
        rate = float(_first_optimizer(self._script).param_groups[0]["lr"])
        evaluated = self._logged.pop("validation/loss", "")
        self._rows.append({"step": step, "loss": loss, "eval_loss": evaluated, "learning_rate": rate})

    def close(self, error: BaseException | None = None) -> None:
        """Nothing: the log is read afterwards."""

    def alarms(self) -> tuple[Alarm, ...]:
        """What its command says of the log."""
        with tempfile.TemporaryDirectory() as folder:
            log, report = Path(folder) / "log.csv", Path(folder) / "report.json"
            with log.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, ("step", "loss", "eval_loss", "learning_rate"))
                writer.writeheader()
                writer.writerows(self._rows)
            command = [sys.executable, "-m", "losslint.cli", "check", str(log), "--json-out", str(report)]
            subprocess.run(command, capture_output=True, check=False)
            if not report.exists():
                return ()
            found = json.loads(report.read_text(encoding="utf-8"))
        return tuple(alarm for one in _findings(found) for alarm in _alarms(one["check"], one["step"], [], "warning"))


def _findings(document: Any) -> list[dict[str, Any]]:
    """Every finding of losslint's report, wherever it is nested."""
    if isinstance(document, list):
        return [one for part in document for one in _findings(part)]
    if not isinstance(document, dict):
        return []
    if "check" in document and document.get("severity") not in ("info", "ok"):
        steps = (document.get("details") or {}).get("steps") or [0]
        return [{"check": str(document["check"]), "step": int(steps[0])}]
    return [one for part in document.values() for one in _findings(part)]


#: Tools by the name of their package.
PEERS: Final[Mapping[str, Callable[[Script], PeerWatcher]]] = {
    "torchmortem": Torchmortem,
    "torch-audit": TorchAudit,
    "traintools": Traintools,
    "losslint": Losslint,
}
