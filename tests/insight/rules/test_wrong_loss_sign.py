"""Since when a loss with the wrong sign is told."""

from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event

CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
NEGATED = Event("accumulation", 0, data={"factor": -0.3, "micro_batches": 1})


def test_a_loss_that_cannot_be_negative_is_told_from_its_first_negative_value_on():
    losses = (0.3, 0.1, -0.1, 0.2, -1.15, -1.2, -1.3)  # it crosses zero once before it stays below
    engine = Engine({"wrong-loss-sign": RULES["wrong-loss-sign"]})
    engine.learn_structure(chain("one:Dense", "two:Dense"))
    for record in Recording({"scalar/loss": losses}, events=(CALLED, NEGATED)).records():
        engine.observe(record)
    (found,) = engine.findings
    assert (found.first_step, found.step) == (2, 6)
