"""A critic whose returns do not fit: told where the text flattens arrays in two orders, and only there."""

from itertools import product

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.indicators.executable_checks import refuting_event
from mindscope.insight.indicators.own_targets import FIT
from mindscope.insight.recording import chain
from mindscope.storage import Event

NAME = "uninformative-labels"
POLICY = Event("training_kind", 0, data={"name": "policy"})


def _events(unlike, unfit):
    text = refuting_event("arrays_are_flattened_in_one_order", "adv is transposed, and o is not", outcome=unlike)
    return (POLICY, text, refuting_event(FIT, "other samples fit as well", outcome=unfit, best=0.01))


@pytest.mark.parametrize("outcomes", [*product(("broken", "held"), repeat=2)], ids=" ".join)
def test_both_together_are_told(outcomes):
    engine = Engine({NAME: RULES[NAME]})
    recording = Recording({"scalar/loss": 0.5}, chain("one:Dense", "two:Dense"), events=_events(*outcomes))
    engine.learn_structure(recording.structure)
    found = [finding for record in recording.records() for finding in engine.observe(record)]
    assert [finding.severity for finding in found] == (["warning"] if set(outcomes) == {"broken"} else [])
