"""Units that fall silent, where the loss can tell whether that is harm and where it cannot."""

from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import apart, chain
from mindscope.insight.verdict import is_question
from mindscope.storage import Finding

_MODEL = chain("one:Dense", "relu:ReLU", "two:Dense")


def findings_of(recording: Recording) -> tuple[Finding, ...]:
    engine = Engine({"dead-units": RULES["dead-units"]})
    engine.learn_structure(_MODEL)
    for record in recording.records():
        engine.observe(record)
    return engine.findings


def test_a_network_that_grows_sparse_under_a_surrogate_loss_is_asked_about() -> None:
    series = {
        "relu activation/zeros": 60,
        "relu activation/units/dead_share": apart(*(0.1,) * 6, *(0.8,) * 6, by=5),
        "scalar/loss": tuple(0.1 * (step % 7) for step in range(60)),
    }
    of_a_policy = Recording({**series, "scalar/reward/mean": 1.0}, _MODEL)
    (asked,) = findings_of(of_a_policy)
    assert is_question(asked)
    assert asked.explanation.endswith("is it meant?")
    silent_from_the_start = Recording(
        {**series, "relu activation/units/dead_share": apart(*(0.8,) * 6, by=5), "scalar/reward/mean": 1.0}, _MODEL
    )
    (said,) = findings_of(silent_from_the_start)
    assert said.severity == "warning"
