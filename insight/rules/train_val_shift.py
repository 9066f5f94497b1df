"""Validation data that differs from the training data."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.policy_training import SelfMadeData
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..running_statistics import Window

_MODEL = chain("one:Dense", "two:Dense")
_NUMBERS, _PREPARED = "names_have_one_number", "splits_are_prepared_alike"
_STORED, _SIDES = "stored_samples_stay", "padding_stays_on_its_side"
_ONE_VOCABULARY = (
    "the model gets other numbers in an evaluation than it has learned",
    "build the vocabulary or the index of classes once, from the training data, and give it to both",
    0.9,
)
#: What follows if a check is broken, what to do, and the confidence.
_SAID = {
    _NUMBERS: _ONE_VOCABULARY,
    _PREPARED: _ONE_VOCABULARY,
    _STORED: (
        "what is cut out of a sample for one batch is gone in all later ones, and the training data drift away from "
        "all other data",
        "change a copy: begin the transform, or __getitem__, with a clone of the stored sample",
        0.95,
    ),
    _SIDES: (
        "the last position, from which a model that reads forwards answers, is padding in the evaluation",
        "pad the rows of an evaluation as those of the training: before their tokens",
        0.9,
    ),
}
#: Shift of the mean in standard deviations of the training data, factor of the spread, and deviations between batches.
#: Our choice: augmentation alone moved means by up to 0.2 and spreads by 1.2.
_MOVED, _STRETCHED, _STRANGE = 0.5, 1.6, 8.0
_FEWEST, _LASTING = 5, 2
#: The scalar of trainings whose first input is ids.
_TOKENS = "batch/tokens"
_HALF = 0.5
#: Times those limits; beyond this one evaluation is enough.
_FAR = 3.0


@dataclass(slots=True)
class _TrainValShiftState:
    """Means and spreads of the training batches, and how many evaluations in a row were shifted.

    Attributes:
        size: Elements of the largest forward of the newest training batch.
        has_tokens: Whether the first input is ids, whose means say nothing.
    """

    means: Window = field(default_factory=lambda: Window(32))
    spreads: Window = field(default_factory=lambda: Window(32))
    self_made: SelfMadeData = field(default_factory=SelfMadeData)
    size: float = 0.0
    has_tokens: bool = False
    streak: int = 0
    since: int = 0
    is_reported: bool = False


def _both(train: tuple[float, float], validation: tuple[float, float]) -> dict[str, float | tuple[float | None, ...]]:
    def fifth(value: float) -> tuple[float | None, ...]:
        return ((None,) * 4 + (value,)) * 6

    return {
        " batch/mean": tuple(train[0] + 0.02 * (-1) ** step for step in range(30)),
        " batch/std": train[1],
        " batch/eval/mean": fifth(validation[0]),
        " batch/eval/std": fifth(validation[1]),
    }


def _skip_window(lookahead: Lookahead, memory: _TrainValShiftState) -> SkipWindow | None:
    """Skip records while nothing is evaluated."""
    means, spreads = lookahead.columns("batch", "mean"), lookahead.columns("batch", "std")
    table = lookahead.context.table("batch")
    if not lookahead.carries("batch"):
        return SkipWindow(lookahead.until("batch/eval"), memory.self_made.pass_by)
    if table is None or ROOT_SITE not in table.rows.sites or means is None or spreads is None:
        return None
    row, sizes = table.rows.sites.index(ROOT_SITE), lookahead.sure("batch", "size")

    def learn(records: int) -> None:
        memory.self_made.pass_by(records)
        memory.has_tokens |= bool(lookahead.known(_TOKENS, records))
        for size in np.fmax.reduce(sizes[:records], axis=1, initial=0.0).tolist():
            memory.size = size or memory.size
        for mean, spread in zip(means[:records, row].tolist(), spreads[:records, row].tolist(), strict=True):
            if isfinite(mean) and isfinite(spread):
                memory.means.add(mean)
                memory.spreads.add(spread)

    return SkipWindow(lookahead.until("batch/eval"), learn)


@rule(
    "train-val-shift",
    needs=("batch", "batch/eval"),
    triggers=("batch", "batch/eval", "event/check"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_TrainValShiftState,
    warm_up=_LASTING,
    is_optional=True,
    fires_on=(
        Recording(
            structure=_MODEL, events=(refuting_event(_NUMBERS, "'red' is 3 in train.vocab and 2 in test.vocab"),)
        ),
        Recording(
            structure=_MODEL, events=(refuting_event(_PREPARED, "encoder.fit(x_test) fits encoder anew", occasion=1),)
        ),
        Recording(structure=_MODEL, events=(refuting_event(_STORED, "40 of 64 samples have changed in place"),)),
        Recording(
            structure=_MODEL, events=(refuting_event(_SIDES, "padded behind, and before in training", occasion=2),)
        ),
        Recording(_both((0.0, 1.0), (0.5, 0.25)), _MODEL),
        Recording(_both((0.0, 1.0), (1.5, 1.0)), _MODEL),
    ),
    silent_on=(
        Recording(_both((0.0, 1.0), (0.05, 0.95)), _MODEL),
        Recording(_both((0.5, 0.25), (0.52, 0.26)), _MODEL),
        # the time that a solver asks for, a single number
        Recording(_both((0.35, 0.0), (0.0, 0.0)), _MODEL),
        # ids, and a sequence that is begun with one token between two recorded steps
        Recording({**_both((40.0, 20.0), (3.0, 0.0)), "scalar/batch/tokens": 256.0}, _MODEL),
        Recording(
            {
                **_both((0.0, 1.0), (1.5, 1.0)),
                " batch/size": tuple(None if step % 5 == 4 else 320.0 for step in range(30)),
                " batch/eval/size": tuple(10.0 if step % 5 == 4 else None for step in range(30)),
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _TrainValShiftState) -> Iterator[Finding]:
    """Report validation input that is distributed differently from the training input.

    The rule fires when, in two evaluations in a row, the mean of the input is half a standard deviation off, or its
    spread by 1.6 times; or in one evaluation by three times as much. It compares with the median of the newest 32
    training batches and requires 8 of the deviations between them, so small batches do not count as a shift. A policy's
    own answers, and forwards of less than half a batch, are no validation, and means of ids say nothing. Only first
    and second moments are compared, so a shift that keeps both is not seen. Apply the same preprocessing to both.

    As the first evaluation begins, variables that are called `train...` and `test...` are compared: where both hold a
    vocabulary or an index of classes under one name, a name must have one number in both. The program's text tells of
    encoders and vocabularies that are fitted to the test data anew. Samples that a data set holds, and that a transform
    changes in place, drift away from all other data. Rows of tokens that the training pads before, and an evaluation
    behind, end in padding.
    """
    yield from _told(context)
    memory.self_made.learn(context)
    training, evaluation = _row(context.table("batch")), _row(context.table("batch/eval"))
    if training is not None:
        memory.means.add(training[0])
        memory.spreads.add(training[1])
    _learn_inputs(context, memory)
    if evaluation is None or memory.self_made.is_self_made or memory.has_tokens or _is_small(context, memory):
        return
    if len(memory.means) < _FEWEST or memory.is_reported or context.has_a_surrogate_loss:
        return
    mean, spread = memory.means.median(), memory.spreads.median()
    if not spread and not evaluation[1]:  # a number, as the time that a solver asks for
        return
    moved, stretched = abs(evaluation[0] - mean), abs(np.log(max(evaluation[1], 1e-30) / max(spread, 1e-30)))
    is_elsewhere = moved > max(_MOVED * spread, _STRANGE * memory.means.spread()) or (
        stretched > np.log(_STRETCHED) and abs(evaluation[1] - spread) > _STRANGE * memory.spreads.spread()
    )
    memory.since = context.step if memory.streak == 0 else memory.since
    memory.streak = memory.streak + 1 if is_elsewhere else 0
    is_far = moved > _FAR * _MOVED * spread or stretched > _FAR * np.log(_STRETCHED)
    if memory.streak < (1 if is_far else _LASTING):
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "batch/eval/mean",
        {
            "mean": evaluation[0],
            "std": evaluation[1],
            "training_mean": mean,
            "training_std": spread,
            "evaluations": memory.streak,
        },
        severity="warning",
        first_step=memory.since,
        position=0,
        explanation=f"the evaluation's input has mean {evaluation[0]:.4g} and standard deviation "
        f"{evaluation[1]:.4g}, the training's {mean:.4g} and {spread:.4g}; it has another source or another "
        "preprocessing",
        advice="apply the same normalisation, resizing and tokenisation to both; compare the two pipelines on the "
        "same sample",
        confidence=0.8,
    )


def _told(context: StepContext) -> Iterator[Finding]:
    """Yield a finding for each broken claim on how the data of training and evaluation are made."""
    for event in refuted(context, *_SAID):
        consequence, advice, confidence = _SAID[str(event.data.get("check"))]
        yield refutation(
            context,
            event,
            consequence=consequence,
            advice=advice,
            metric="",
            severity="warning",
            confidence=confidence,
        )


def _learn_inputs(context: StepContext, memory: _TrainValShiftState) -> None:
    trained = context.table("batch")
    if trained is not None:
        memory.size = float(trained.there("size").max(initial=0.0)) or memory.size
    memory.has_tokens |= context.scalar(_TOKENS) is not None


def _is_small(context: StepContext, memory: _TrainValShiftState) -> bool:
    """Return whether all forwards without gradients had less than half of a training batch, as where a model acts."""
    evaluated = context.table("batch/eval")
    return evaluated is not None and bool(evaluated.there("size").max(initial=0.0) < _HALF * memory.size)


def _row(table: Table | None) -> tuple[float, float] | None:
    """Mean and standard deviation of the first input."""
    if table is None or ROOT_SITE not in table.rows.sites:
        return None
    row = table.rows.sites.index(ROOT_SITE)
    mean, std = table.value(row, "mean"), table.value(row, "std")
    return (mean, std) if table.present[row] and np.isfinite(mean) and np.isfinite(std) else None
