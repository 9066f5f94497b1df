"""What is said of a loss that jumps and comes down again slowly."""

from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.storage import StepRecord


def test_the_loss_of_a_step_is_told_with_that_step_and_the_newest_as_such():
    losses = [*(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40)), 146521.0, 3000.0, 195.6]
    engine = Engine({"loss-spike": RULES["loss-spike"]})
    found = [
        finding
        for step, loss in enumerate(losses)
        for finding in engine.observe(StepRecord(step, 0.0, scalars={"loss": loss}))
    ]
    assert [finding.first_step for finding in found] == [40]
    assert "to 1.465e+05 at step 40" in found[0].explanation
    assert "it is 195.6 now" in found[0].explanation
    assert (found[0].evidence["rose_to"], found[0].evidence["loss"]) == (146521.0, 195.6)
