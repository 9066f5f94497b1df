"""Updates too large, and what they ruin beside the loss."""

import pytest
from mindscope.insight.context.model_index import ModelIndex
from mindscope.insight.context.optimizer_bounds import AdamBound
from mindscope.insight.context.step_context import StepContext
from mindscope.insight.indicators.update_stability import UpdateStability
from mindscope.insight.recording import Recording, apart, chain

MODEL = chain("one:Dense", "attn:Attention", "two:Dense", optimizer="Adam")


def lived(series: dict[str, object]) -> UpdateStability:
    stability, rows, model = UpdateStability(), {}, ModelIndex(MODEL)
    for record in Recording(series, MODEL).records():
        stability.update(StepContext(record, rows, model, 0, AdamBound()))
    return stability


def attention(*entropy: float, logit: float = 1.0, update: object = 0.8) -> dict[str, object]:
    return {
        "scalar/loss": (2.0,) * (10 * len(entropy)),
        "attn attention/relative_entropy": apart(*entropy),
        "attn attention/max_logit": logit,
        "one.weight update/ratio_to_weight": apart(*update) if isinstance(update, tuple) else update,
    }


@pytest.mark.parametrize(
    ("series", "damaged"),
    [
        (attention(1.0, 0.01, 0.01), True),
        (attention(1.0, 0.01, 0.9), False),  # in one look only
        (attention(1.0, 0.5, 0.5), False),
        (attention(1.0, 0.5, 0.5, logit=80.0), True),  # what is left is lost to rounding
        (attention(0.01, 0.01, 0.01), False),  # it was so from the start
        (attention(1.0, 0.01, 0.01, update=0.02), False),  # and no step was too large
        (attention(1.0, 0.01, 0.01, 0.01, update=(0.02, 0.02, 0.8, 0.8)), False),  # or only afterwards
    ],
)
def test_attention_is_damaged_when_it_was_whole_before_a_step_too_large(
    series: dict[str, object], damaged: bool
) -> None:
    assert lived(series).is_damaged() is damaged


def test_a_policy_with_one_answer_left_is_damaged_and_its_loss_is_not_judged() -> None:
    found = lived(
        {
            "scalar/loss": (0.0, 5.0, 9.0, 9.0),
            "scalar/reward/mean": 0.1,
            "scalar/policy/entropy": (2.0, 1.0, 0.01, 0.01),
            "one.weight update/ratio_to_weight": 0.8,
        }
    )
    assert found.is_damaged()
    assert not found.is_harmed
    assert found.records == 4


FROM_ZERO = (3e28, 1.5, 0.7, 0.43, 0.25, *(0.1,) * 10)


@pytest.mark.parametrize(
    ("one", "two", "is_large"),
    [
        ((0.0, *(0.01,) * 14), FROM_ZERO, False),
        ((0.0, 0.5, *(0.01,) * 13), FROM_ZERO, True),  # the other layer moves as far
        (FROM_ZERO, FROM_ZERO, True),  # all begin at zero: there is nothing else to judge by
        ((0.0, *(0.01,) * 39, 0.5), (*FROM_ZERO, *(0.05,) * 25, 0.9), True),  # it has its size by then
    ],
    ids=["one layer", "both move", "both begin at zero", "later"],
)
def test_a_layer_that_begins_at_zero_moves_far_beside_it(one: object, two: object, *, is_large: bool) -> None:
    series = {"one.weight update/ratio_to_weight": one, "two.weight update/ratio_to_weight": two}
    stability = lived({"scalar/loss": (2.0,) * len(one), **series})  # type: ignore[arg-type]
    assert (stability.large_first is not None) is is_large
    assert not stability.peak > 10
