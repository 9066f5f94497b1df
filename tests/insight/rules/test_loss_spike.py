"""What is said of a loss that jumps and comes down again slowly."""

from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event, StepRecord


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


CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
CALM = tuple(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40))


def severities(rule, recording):
    """The severities of a rule's finding, as they are said one after the other."""
    engine = Engine({rule: RULES[rule]})
    engine.learn_structure(chain("one:Dense", "two:Dense"))
    said = [finding.severity for record in recording.records() for finding in engine.observe(record)]
    assert len(engine.findings) == min(len(said), 1)
    return said


def test_a_spike_is_a_notice_first_a_warning_when_it_stays_and_a_notice_when_it_is_over():
    stays = (*CALM, *(3.0,) * 14)
    assert severities("loss-spike", Recording({"scalar/loss": stays}, events=(CALLED,))) == ["info", "warning"]
    over = (*stays, *(0.8,) * 5)
    assert severities("loss-spike", Recording({"scalar/loss": over}, events=(CALLED,))) == ["info", "warning", "info"]
    assert severities("loss-spike", Recording({"scalar/loss": stays})) == ["info", "info"]


def test_a_loss_that_was_lost_and_falls_again_withdraws_the_warning():
    fall = tuple(2.0 * 0.95**step for step in range(30))
    again = Recording({"scalar/loss": (*fall, *(2.6,) * 22, *fall)}, events=(CALLED,))
    assert severities("unknown", again) == ["warning", "info"]


def test_a_loss_that_leaves_its_plateau_withdraws_the_warning():
    stands = tuple(2.3 + 0.02 * (-1) ** step for step in range(70))
    update = {"one.weight update/ratio_to_weight": 0.03}
    leaves = Recording(
        {"scalar/loss": (*stands, *(2.3 * 0.98**step for step in range(40))), **update}, events=(CALLED,)
    )
    assert severities("plateau", leaves) == ["warning", "info"]


def test_gradients_that_explode_and_come_back_with_the_loss_are_a_notice_in_the_end():
    norms = (*(1.0, 1.2) * 12, 300.0, 900.0, 4000.0, *(1.0,) * 30)
    losses = (*(2.0,) * 24, 9.0, 30.0, 80.0, *(2.0,) * 30)
    explodes = Recording({"one.weight gradient/l2_norm": norms, "scalar/loss": losses})
    assert severities("exploding-gradient", explodes) == ["error", "info"]
    clipped = Recording({"one.weight gradient/l2_norm": norms, "scalar/loss": 2.0, "scalar/clip/norm": 1.0})
    assert severities("exploding-gradient", clipped)[0] == "info"
