"""What is said of a monitor that failed."""

import pytest
from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.storage import Event, StepRecord


def reported(event):
    engine = Engine({"monitor-fault": RULES["monitor-fault"]})
    (found,) = engine.observe(StepRecord(3, 0.0, events=(event,)))
    return found.explanation


@pytest.mark.parametrize(
    ("data", "words"), [({}, "; the training was not touched"), ({"touched": True}, "; the training was touched")]
)
def test_of_a_function_that_wrote_into_the_training_it_is_not_said_that_it_was_not_touched(data, words):
    event = Event("monitor_fault", 3, data={"collector": "mine", "error": "it wrote", **data})
    assert reported(event) == f"mine failed and was switched off at step 3: it wrote{words}"


def test_lost_records_are_counted_and_the_reason_is_given():
    assert reported(Event("observations_lost", 3, data={"count": 7})) == (
        "7 records were lost around step 3: the queue was full; the training was not touched"
    )
