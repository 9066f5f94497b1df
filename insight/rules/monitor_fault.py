"""A failure of the monitor itself: observations are missing, the training is unharmed."""

from collections.abc import Iterator

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..event_fields import number
from ..recording import Recording
from ..rule import CONFIGURATION, rule


@rule(
    "monitor-fault",
    needs=("record",),
    triggers=(
        "event/monitor_fault",
        "event/observations_lost",
        "event/later_training",
        "event/forward_called_directly",
        "event/graph_captured",
    ),
    phase=CONFIGURATION,
    is_fact=True,
    fires_on=(
        Recording(events=(Event("monitor_fault", 0, "fc", data={"collector": "weight", "error": "ValueError: no"}),)),
        Recording(events=(Event("monitor_fault", 0, data={"collector": "mine", "error": "no", "touched": True}),)),
        Recording(events=(Event("observations_lost", 0, data={"count": 7}),)),
        Recording(events=(Event("forward_called_directly", 0, data={"model": "Net", "parts": "encoder, head"}),)),
        Recording(events=(Event("graph_captured", 0),)),
        Recording(events=(Event("later_training", 0, "net", data={"networks": "net (Net)", "watched": "Teacher"}),)),
    ),
    silent_on=(Recording(events=(Event("step_skipped", 0, data={"loss_scale": 1024.0}),)),),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a failure of the monitor: a collector that was switched off, or records that were lost.

    Networks that the script began to train behind the recorded one are a notice: of them only the executable checks
    speak. So is a program that calls the `forward` of its model itself: torch runs no hooks of such a call, and what is
    seen is the calls of its parts. So is a CUDA graph: its replays call no hooks, and what it computes is not seen.

    Such a finding never makes a run unhealthy and is never a root cause; it says where silence does not mean health.
    Rules that raise are reported in the same way.
    """
    for event in context.events("later_training"):
        networks, watched = event.data.get("networks", "others"), event.data.get("watched", "the first model")
        yield context.finding(
            event.site,
            "",
            {"parameters": number(event, "parameters")},
            severity="info",
            explanation=f"this run is of {watched}; {networks} began to train behind it, and of that it has nothing "
            "but the executable checks",
            advice="look for a run with the tag `after`: a model that is trained alone for 40 steps has one of its "
            "own; else call mindscope.watch in the script, once for each model",
            confidence=1.0,
        )
    for event in context.events("forward_called_directly"):
        kind, parts = event.data.get("model", "the model"), event.data.get("parts", "its parts")
        yield context.finding(
            event.site,
            "",
            {"count": 1.0},
            severity="info",
            explanation=f"the program calls forward of {kind} itself, for which torch runs no hooks; what is seen is "
            f"the calls of its parts ({parts}), each by itself, and not which inputs and outputs {kind} has",
            advice="call the module, model(x), in the place of model.forward(x)",
            confidence=1.0,
        )
    for event in context.events("graph_captured"):
        yield context.finding(
            ROOT_SITE,
            "",
            {"step": float(event.step)},
            severity="info",
            explanation=f"by step {event.step} the program has captured a CUDA graph; its replays call no hooks, so of "
            "what the graph computes nothing is recorded from there on",
            advice="to look inside, run a few hundred steps without the graph: the losses are the same",
            confidence=1.0,
        )
    for event in (*context.events("monitor_fault"), *context.events("observations_lost")):
        lost = event.data.get("count")
        collector = str(event.data.get("collector", ""))
        what = f"{collector or 'a collector'} " + (
            "cannot be recorded here" if event.site else "failed and was switched off"
        )
        words = f"{lost} records were lost around step {event.step}" if lost else f"{what} at step {event.step}"
        touched = "the training was touched" if event.data.get("touched") else "the training was not touched"
        yield context.finding(
            event.site or collector,
            "",
            {"count": float(lost) if isinstance(lost, int | float) else 1.0},
            severity="warning",
            explanation=f"{words}: {event.data.get('error', 'the queue was full')}; {touched}",
            advice="do not take the missing observations for health; for lost records, record less often, raise "
            "queue.capacity in the configuration, or choose a faster place for the store; for a failed collector, "
            "report its message",
        )
