"""From outcomes to how often each rule was right."""

from benchmarks.faults.calibrate import named, source
from benchmarks.faults.outcome import Alarm, Outcome


def outcome(case: str, *causes: str) -> Outcome:
    roots = tuple(Alarm(cause.replace("_", "-"), cause, "error", "", 0, 1, 1) for cause in causes)
    return Outcome(case, 0, roots=roots)


def test_a_rule_is_right_where_its_cause_is_one_of_the_true_ones() -> None:
    found = named(
        [
            outcome("rate-jump", "schedule_error", "dead_units"),
            outcome("same-batch", "repeated_batch"),
            outcome("mlp", "dead_units"),  # a healthy run
            outcome("cnn"),
        ]
    )
    assert found == {"dead-units": (0, 2), "repeated-batch": (1, 1), "schedule-error": (1, 1)}


def test_a_rule_that_is_named_twice_in_a_run_counts_once() -> None:
    assert named([outcome("frozen-layer", "frozen_parameter", "frozen_parameter")]) == {"frozen-parameter": (1, 1)}


def test_the_module_that_is_written_says_the_same() -> None:
    space: dict[str, object] = {}
    exec(source({"dead-units": (1, 3)}), space)
    assert space["NAMED"] == {"dead-units": (1, 3)}
