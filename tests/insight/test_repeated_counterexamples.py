"""A claim that every look of its check contradicts is one finding."""

from dataclasses import replace

from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.insight.indicators.executable_checks import refuting_event
from mindscope.insight.recording import Recording, chain

TARGETS = refuting_event("targets_have_no_gradient", "the loss compares two values with gradients")


def _first_steps(*outcomes):
    events = [
        replace(TARGETS, step=step, data={**TARGETS.data, "occasion": step, "outcome": outcome})
        for step, outcome in enumerate(outcomes, 1)
    ]
    recording = Recording(structure=chain("one:Dense", "two:Dense"), events=tuple(events), steps=len(events) + 1)
    engine = Engine({"gradient-into-target": RULES["gradient-into-target"]})
    engine.learn_structure(recording.structure)
    for record in recording.records():
        engine.observe(record)
    return [finding.first_step for finding in engine.findings]


def test_a_second_counterexample_is_no_second_finding():
    assert _first_steps("broken", "broken") == [1]


def test_a_claim_that_held_in_between_is_told_anew():
    assert _first_steps("broken", "held", "broken") == [1, 3]
