"""Collectors of one number a step: loss, learning rate, clipping, time and memory."""

import os
import sys
from collections.abc import Mapping

from ..late_scalars import LateScalar
from ..quantities.step_clock import PHASES, StepTime
from .collector import Step, array_collector, collector


@collector("clip", at="before_step")
class Clip:
    """Norm of the gradients before they were shortened, and the factor that this took: 1 where the limit was above it.

    Nothing where nobody clips by norm. Seen are `torch.nn.utils.clip_grad_norm_` and the engine's
    `clip_by_global_norm` outside of compiled functions.
    """

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """`clip/norm` and `clip/coefficient`."""
        if step.clip is None:
            return {}
        norm, limit = step.clip
        if callable(norm):
            return {"clip/norm": norm, "clip/coefficient": lambda: coefficient(norm(), limit)}
        return {"clip/norm": norm, "clip/coefficient": coefficient(norm, limit) or 0.0}


def coefficient(norm: float | None, limit: float) -> float | None:
    """Return the factor for gradients of this norm: 1 below the limit, NaN for NaN, None if it is not known."""
    if norm is None:
        return None
    return limit / norm if norm > limit else 1.0 if norm == norm else norm


@collector("learning_rate", at="before_step")
class LearningRate:
    """Rate with which the step is taken: `learning_rate`, and `learning_rate/1` and so on for further groups."""

    def __call__(self, step: Step) -> dict[str, float]:
        """Return one scalar a group."""
        first, *others = step.view.learning_rates() or (None,)
        if first is None:
            return {}
        found = {"learning_rate": first}
        for number, rate in enumerate(others, 1):
            found[f"learning_rate/{number}"] = rate
        return found


@collector("loss", at="after_step")
class LossValue:
    """Value of the scalar from which the backward pass started, without loss scale; several are summed."""

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """`loss`, where one was found."""
        return {} if step.loss is None else {"loss": step.loss}


@collector("loss_scale", at="after_step")
class LossScale:
    """Factor by which the loss was multiplied before the backward pass."""

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """`loss_scale`, where there is one."""
        return {} if step.loss_scale is None else {"loss_scale": step.loss_scale}


#: Reading the kernel's figure takes about ten microseconds; memory moves slowly. Our choice.
_EVERY = 10


@collector("memory", at="after_step", pace=_EVERY)
class Memory:
    """Bytes resident in host memory, and allocated on the CUDA device that torch uses; at every tenth due step.

    Scalars `memory/host_bytes`, `memory/device_bytes` and `memory/device_peak_bytes`; nothing where the system does not
    tell. Of the host's, `memory/monitor_bytes` are the monitors': the copies of weights, the records that wait, and
    what the C library has set aside for the threads that diagnose and write them (with glibc). Left out are Python's
    small objects, which hardly grow, and code.
    """

    def __init__(self) -> None:
        self._count = 0
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0

    def __call__(self, step: Step) -> dict[str, float]:
        """Return the scalars, or none in the steps between."""
        self._count += 1
        if (self._count - 1) % _EVERY:
            return {}
        return {**self._host(step), **_device()}

    def _host(self, step: Step) -> dict[str, float]:
        try:
            with open("/proc/self/statm", "rb") as file:
                found = {"memory/host_bytes": float(int(file.read().split()[1]) * self._page)}
        except (OSError, ValueError, IndexError):
            return {}
        held = step.held_bytes()
        return {**found, "memory/monitor_bytes": float(held)} if held else found


def _device() -> dict[str, float]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {
        "memory/device_bytes": float(torch.cuda.memory_allocated()),
        "memory/device_peak_bytes": float(torch.cuda.max_memory_allocated()),
    }


@collector("step_seconds", at="after_step")
class StepSeconds:
    """Wall time from the end of the previous step to the end of this one, data loading included."""

    def __call__(self, step: Step) -> dict[str, float]:
        """`step_seconds`."""
        return {"step_seconds": step.elapsed_s}


@collector("time", at="after_step", pace=_EVERY)
class TimeSplit:
    """Seconds a step, and samples and tokens a second, averaged over about ten due steps.

    `time/data_seconds` from the end of a step to the model's call, `time/forward_seconds` from there to the backward
    pass, the loss included, `time/backward_seconds`, `time/optimizer_seconds` from there to the end, clipping included,
    `time/evaluation_seconds` from a forward that is none of the training to what comes next; of what the monitor does
    around the optimizer `time/monitor_seconds`. `time/communication_seconds` is what collectives took of these.
    `time/writer_seconds` is the processor time beside them of the thread that diagnoses and writes the records.
    `throughput/samples_per_second` and `throughput/tokens_per_second` where `batch` is due. The first step is left out.
    With the engine and MindSpore, which tell no end of a backward pass, clipping counts to it. Costs about 1 us a step.
    """

    def __init__(self) -> None:
        self._calls, self._since = 0, 0
        self._before: tuple[float, ...] = ()

    def __call__(self, step: Step) -> dict[str, float]:
        """Return the scalars, or none in the steps between."""
        call, self._calls = self._calls, self._calls + 1
        if call > 1 and call % _EVERY:
            return {}
        steps, self._since = step.time.ended - self._since, step.time.ended
        before, self._before = self._before, (*step.time.seconds(), step.time.background())
        spent = [(now - then) / max(1, steps) for now, then in zip(self._before, before or self._before, strict=True)]
        rates = _rates(step.time, sum(spent[: len(PHASES)]))
        named = zip((*PHASES, "communication", "writer"), spent, strict=True)
        return {f"time/{phase}_seconds": seconds for phase, seconds in named if seconds} | rates


def _rates(watch: StepTime, step_s: float) -> dict[str, float]:
    """Return samples and tokens a second of steps that take so long, and count them anew."""
    whole = watch.steps * step_s
    counts = {"samples": watch.samples, "tokens": watch.tokens}
    watch.samples = watch.tokens = watch.steps = 0
    return {f"throughput/{name}_per_second": count / whole for name, count in counts.items() if count and whole > 0.0}


RANKS = array_collector(
    "ranks",
    None,
    at="before_step",
    columns=(),
    rarity=10,
    doc="""Weights, gradients, buffers, batches, random states and times of all ranks, compared in one of ten due steps.

    Which one of the ten is drawn, so that nothing periodic escapes. Every rank pins checksums and projections up in the
    key-value store that connects torch.distributed, without a collective and without waiting; rank 0 reads them at a
    later step and records the events `rank_checksums`, `rank_reduction`, `rank_still` and `rank_times`. Compared are at
    most 64 ranks. Each is compared with those that hold copies of the same: what wrappers and placements say, and what
    was equal or is reduced together. Costs, in a step that is due, two reads of the weights, two of the gradients,
    a product of four rows with one dense layer (1.7 ms for 768 x 768), and about 2 us a parameter; on rank 0 about 0.4
    ms for every other rank of 8, and 1.2 ms of 64, at 400 parameters. Weights and gradients on an accelerator are
    measured there, and recorded one step later. Nothing is recorded if there is one process.""",
)
