"""Which scalar is the curve of a training."""

import pytest
from mindscope.insight.result_scalars import is_result, main_scalar


@pytest.mark.parametrize(
    ("names", "main"),
    [
        (("batch/checksum", "loss", "G/loss"), "loss"),
        (("batch/checksum", "train/loss", "validation/loss"), "train/loss"),
        (("accuracy", "batch/checksum"), "accuracy"),
        (("batch/checksum", "time/data_seconds", "learning_rate"), ""),
        ((), ""),
    ],
    ids=str,
)
def test_the_curve_is_the_loss_or_what_is_nearest_and_never_a_checksum(names: tuple[str, ...], main: str) -> None:
    assert main_scalar(names) == main


def test_times_rates_and_checksums_are_no_results() -> None:
    assert [is_result(name) for name in ("loss", "G/loss", "batch/checksum", "step_seconds")] == [
        True,
        True,
        False,
        False,
    ]
