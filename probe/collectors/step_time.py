"""What a step's time is spent on, and how many samples it gets through."""

from ..quantities.step_time import PHASES, StepTime
from .collector import Step, collector

#: Steps whose mean is recorded: a name costs disk and a look of the rules, and what waits, waits long. Our choice.
_EVERY = 10


@collector("time", at="after_step", pace=_EVERY)
class TimeSplit:
    """Seconds a step, and samples and tokens a second, averaged over about ten due steps.

    `time/data_seconds` from the end of a step to the model's call, `time/forward_seconds` from there to the backward
    pass, the loss included, `time/backward_seconds`, `time/optimizer_seconds` from there to the end, clipping included,
    `time/evaluation_seconds` from a forward that is none of the training to what comes next; of what the monitor does
    around the optimizer `time/monitor_seconds`. `time/communication_seconds` is what collectives took of these.
    `throughput/samples_per_second` and `throughput/tokens_per_second` where `batch` is due. The first step is left out.
    With the engine and MindSpore, which tell no end of a backward pass, clipping counts to it. Costs about 1 us a step.
    """

    def __init__(self) -> None:
        self._calls, self._since = 0, 0
        self._before: tuple[float, ...] = ()

    def __call__(self, step: Step) -> dict[str, float]:
        """The scalars, or none in the steps between."""
        call, self._calls = self._calls, self._calls + 1
        if call > 1 and call % _EVERY:
            return {}
        steps, self._since = step.time.ended - self._since, step.time.ended
        before, self._before = self._before, step.time.seconds()
        spent = [(now - then) / max(1, steps) for now, then in zip(self._before, before or self._before, strict=True)]
        rates = _rates(step.time, sum(spent[: len(PHASES)]))
        named = zip((*PHASES, "communication"), spent, strict=True)
        return {f"time/{phase}_seconds": seconds for phase, seconds in named if seconds} | rates


def _rates(watch: StepTime, step_s: float) -> dict[str, float]:
    """Samples and tokens a second of steps that take so long; they are counted anew."""
    whole = watch.steps * step_s
    counts = {"samples": watch.samples, "tokens": watch.tokens}
    watch.samples = watch.tokens = watch.steps = 0
    return {f"throughput/{name}_per_second": count / whole for name, count in counts.items() if count and whole > 0.0}
