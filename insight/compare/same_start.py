"""Finds where a run parts from a good run that started alike: from there on the program computes something else.

Two runs that start from the same weights and the same random numbers compute the same to the last digit, as long as
they are the same program with the same settings and data. The first value that differs by more than rounding is
therefore no matter of chance, and its place in the step tells what was changed: the data, the forward, the loss, its
gradient, or the update.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...storage import Finding, Run, Store, display_site
from ..rule import OPTIMIZER
from .noise import CERTAIN, Divergence
from .run_comparison import Comparison, compare
from .setting_differences import GENERATOR, Difference

#: By subject of the first value that differs: what was changed, in words.
_CHANGED: Final = {
    "batch": "another input",
    "target": "other targets",
    "input": "another input of the site",
    "activation": "another forward",
    "scalar": "another loss",
    "activation_grad": "another gradient",
    "input_grad": "another gradient",
    "gradient": "another gradient",
    "optimizer": "another update",
    "update": "another update",
    "weight": "another update",
}
#: Subjects that nothing but the settings of the optimizer may have changed.
_OF_UPDATES: Final = frozenset({"optimizer", "update", "weight"})
#: The word for it where the program's text tells nothing.
_BY_SUBJECT: Final = {
    "target": "uninformative_labels",
    "gradient": "wrong_backward",
    "activation_grad": "wrong_backward",
    "input_grad": "wrong_backward",
}
#: Distance of a ratio from minus one at which a loss counts as negated.
_NEGATED: Final = 1e-3
#: Two runs of one program from one start were never seen to part by more than rounding; a device may still add in
#: another order.
_CONFIDENCE: Final = 0.95
#: What rounding may explain of a value, times this, is more than it ever was. Our choice: a power of ten.
_ABOVE_ROUNDING: Final = 10.0
#: What a sum in another order changes of a norm in float32 is below this. Our choice: a hundred times its precision.
_LEAST: Final = 1e-5
#: Factor of the norm of a batch from which its scale is another, and its samples are not just others. Our choice: the
#: norms of batches of one data set differed by at most 1.5 in 41 pairs of runs.
_OTHER_SCALE: Final = 2.0
#: Causes that explain that a generator stands elsewhere.
_OF_SEEDS: Final = frozenset({"reseeded_generator", "repeated_batch"})
_SHOWN, _LONGEST = 4, 160
#: Generators that draw batches, and nothing of a model.
_OF_DATA_ALONE: Final = frozenset({"python", "numpy"})


@dataclass(frozen=True, slots=True)
class Parting:
    """How a run starts beside a good one.

    Args:
        is_alike: Both started alike.
        finding: What tells where they parted; None if they did not, or did not start alike.
        named: The cause that other settings or another text of the program speak of, where they did not start alike.
        asked: The question whether that is meant, which their values cannot answer; None where it speaks of no cause.
    """

    is_alike: bool
    finding: Finding | None
    named: str = ""
    asked: Finding | None = None


def parting(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int], *, rule: str) -> Parting:
    """Return whether both runs started alike, and what tells where the first parted from the second, the good one.

    They did if a whole step was equal to the bit, or if their weights and the generators that may have drawn what
    differs were. Values that differ by at most `CERTAIN`, relatively, do not count, nor those of runs that were never
    equal to the bit and differ by rounding at first.
    """
    found = compare(stores, runs, ranks)
    if found.verdict == "identical":
        return Parting(True, _of_evaluation(found, runs[1].name, rule) if found.speaks_of else None)
    if found.verdict == "incomparable" or found.first is None:
        return Parting(False, None)
    starts = [difference for difference in found.differences if difference.area == "start"]
    weights = [difference for difference in starts if not difference.name.startswith(GENERATOR)]
    is_known = all(_tells_start(store, run, rank) for store, run, rank in zip(stores, runs, ranks, strict=True))
    if found.exact_until < 0 and not (is_known and _is_alike(found, starts, weights)):
        named = _of_the_optimizer(found.differences) or found.speaks_of
        return Parting(False, None, named, _question(found, named, runs[1].name, rule) if named else None)
    if not _is_clear(found, found.first):
        return Parting(found.exact_until >= 0, None)
    return Parting(True, _finding(found, found.first, weights, runs[1].name, rule))


def _is_clear(found: Comparison, first: Divergence) -> bool:
    """Return whether rounding does not explain a value that differs; less is enough where the program was changed."""
    least = max(_LEAST, _ABOVE_ROUNDING * first.floor)
    return first.difference > (min(CERTAIN, least) if found.speaks_of else CERTAIN)


def _tells_start(store: Store, run: Run, rank: int) -> bool:
    """Return whether the run has recorded its first weights and random numbers."""
    kinds = "initial_checksum", "random_state"
    return all(any(store.events(run.id, rank=rank, kind=kind, limit=1)) for kind in kinds)


def _is_alike(found: Comparison, starts: Sequence[Difference], weights: Sequence[Difference]) -> bool:
    """Return whether runs that differ in their first step differ by what they compute, and not by chance."""
    is_apart = found.verdict == "different_start" or (bool(found.speaks_of) and found.verdict == "unclear")
    if found.speaks_of in _OF_SEEDS and not weights:
        return is_apart
    drawn = {one.name.removeprefix(GENERATOR) for one in starts if one.name.startswith(GENERATOR)}
    # other labels of the same inputs were not drawn otherwise
    is_of_the_data = any(one.area == "data" and one.name.startswith("the batch") for one in found.differences)
    by_chance = drawn if is_of_the_data else drawn - _OF_DATA_ALONE
    is_made = not weights or _is_in_part(weights[0]) or (not drawn and bool(found.speaks_of))
    return is_apart and not by_chance and is_made


def _is_in_part(weights: Difference) -> bool:
    """Return whether some of the first weights are equal: then the others were made in another way."""
    parts = weights.note.split(" of the ")
    return len(parts) == 2 and int(parts[0]) < int(parts[1].split()[0])


def _finding(found: Comparison, first: Divergence, weights: Sequence[Difference], name: str, rule: str) -> Finding:
    changed = "other first weights" if weights else _CHANGED.get(_subject(first), "other values")
    where = "the loss" if first.metric == "scalar/loss" else f"{first.metric} of {display_site(first.site)}"
    words = [
        f"this run starts as the good run {name!r} does and computes something else from step {first.step} on: "
        f"{changed}. {where} is {first.first:.4g}, where the good run has {first.second:.4g}"
    ]
    words += _lines(found.differences)
    return Finding(
        rule=rule,
        cause=_cause(found.differences, first, found.speaks_of, has_other_weights=bool(weights)),
        severity="warning",
        step=first.step,
        first_step=first.step,
        site=_site(found.differences, first),
        metric=first.metric,
        evidence={
            "value": first.first,
            "value_of_the_good_run": first.second,
            "difference": first.difference,
            "limit": max(first.floor, CERTAIN),
        },
        explanation="; ".join(words),
        advice="decide whether this difference is wanted; `mindscope compare` lists all that differ",
        confidence=_CONFIDENCE,
        rank=found.ranks[0],
        order=(first.micro_step, OPTIMIZER, 0),
    )


def _question(found: Comparison, named: str, name: str, rule: str) -> Finding:
    """Return what is asked of a run that is another program than the good one, where their values cannot tell."""
    words = [f"this run is not the same program as the good run {name!r}", *_lines(found.differences)]
    return Finding(
        rule=rule,
        cause=named,
        severity="info",
        step=0,
        first_step=0,
        site="",
        metric="",
        evidence={"steps_that_both_have": found.common},
        explanation=f"{'; '.join(words)}. They start from other weights or random numbers, so that what follows from "
        "it cannot be told apart from chance: is it meant?",
        advice="seed both runs alike and compare again; `mindscope compare` lists all that differs",
        confidence=0.5,
        rank=found.ranks[0],
        order=(0, OPTIMIZER, 0),
    )


def _of_evaluation(found: Comparison, name: str, rule: str) -> Finding:
    """Return what is said of a run that trains as the good one and evaluates otherwise."""
    words = [f"this run trains as the good run {name!r} does, to the bit; its program differs where it evaluates"]
    return Finding(
        rule=rule,
        cause=found.speaks_of,
        severity="warning",
        step=found.exact_until,
        first_step=found.exact_until,
        site="",
        metric="",
        evidence={"steps_that_are_equal": found.common},
        explanation="; ".join([*words, *_lines(found.differences)]),
        advice="decide whether the evaluation is meant to differ; its result is not comparable with the good run's",
        confidence=_CONFIDENCE,
        rank=found.ranks[0],
        order=(0, OPTIMIZER, 0),
    )


def _lines(differing: Sequence[Difference]) -> list[str]:
    """Return what was changed by hand, in words: lines of the program, arguments, options of the optimizer."""
    changes = [one for one in differing if one.area in ("program", "argument", "optimizer", "parameter", "module")]
    shown = [f"{_place(one)} {_is(one.first)}, there {_is(one.second).removeprefix('is ')}" for one in changes[:_SHOWN]]
    return [*shown, f"and {len(changes) - _SHOWN} more differences"] if len(changes) > _SHOWN else shown


def _place(difference: Difference) -> str:
    return difference.name if difference.area == "program" else f"{difference.area} {difference.name}"


def _is(value: object) -> str:
    text = str(value)
    return "is missing" if value is None else f"is `{text if len(text) <= _LONGEST else f'{text[: _LONGEST - 3]}...'}`"


def _site(differing: Sequence[Difference], first: Divergence) -> str:
    """Return the parameter that is treated otherwise, or where the first value differs."""
    sites = [one.name.rpartition(".")[0] for one in differing if _is_left_out(one)]
    return sites[0] if sites else "" if first.metric.startswith("scalar/") else first.site


def _is_left_out(difference: Difference) -> bool:
    is_frozen = difference.name.endswith(".requires_grad") and difference.first is False
    return difference.area == "parameter" and (
        is_frozen or (difference.name.endswith(".group") and not difference.first)
    )


def _cause(differing: Sequence[Difference], first: Divergence, named: str, *, has_other_weights: bool) -> str:
    """Return the word for the change, as far as settings, the first value that differs, and the program tell it."""
    for one in filter(_is_left_out, differing):
        return "frozen_parameter" if one.name.endswith(".requires_grad") else "parameter_not_in_optimizer"
    if has_other_weights:
        return "bad_initialization"
    if first.metric == "scalar/loss" and math.isclose(first.first, -first.second, rel_tol=_NEGATED) and first.second:
        return "wrong_loss_sign"
    of_the_optimizer = _of_the_optimizer(differing)
    if of_the_optimizer and _subject(first) in _OF_UPDATES and named != "schedule_error":
        return of_the_optimizer
    return named or _of_the_batch(differing, first) or _BY_SUBJECT.get(_subject(first), "unknown")


def _of_the_batch(differing: Sequence[Difference], first: Divergence) -> str:
    """Return the cause of a batch of another scale: of all of them, or of one after others that were equal."""
    sizes = sorted((abs(first.first), abs(first.second)))
    is_other = any(one.area == "data" and one.name.startswith("the batch") for one in differing)
    is_batch = first.metric == "batch/l2_norm" or (is_other and first.metric in ("input/l2_norm", "activation/l2_norm"))
    if not is_batch or not sizes[1] > _OTHER_SCALE * sizes[0]:
        return ""
    return "bad_batch" if first.step else "unnormalized_input"


def _subject(first: Divergence) -> str:
    parts = first.metric.split("/")
    if parts[0] == "scalar" and parts[1] in ("batch", "target"):
        return parts[1]
    return "update" if first.metric.startswith("scalar/learning_rate") else parts[0]


def _of_the_optimizer(differing: Sequence[Difference]) -> str:
    for name, above, below in (
        (".lr", "learning_rate_too_high", "learning_rate_too_low"),
        (".weight_decay", "weight_decay_too_high", ""),
    ):
        for one in differing:
            pair = one.first, one.second
            if one.area == "optimizer" and one.name.endswith(name) and all(isinstance(part, float) for part in pair):
                return above if float(pair[0]) > float(pair[1]) else below  # type: ignore[arg-type]
    return ""
