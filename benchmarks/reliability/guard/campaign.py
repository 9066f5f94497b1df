"""Lists the functions of ours that run inside the trainings, tries them one by one, and counts what the trials tell."""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...rows import at_least, at_most
from .injection import KINDS, Injector, functions_called
from .trial import TRAININGS, Outcome, Training, Trial, in_a_fork, outcome_of

#: Functions that torch, the script or the interpreter calls itself. They do nothing but hand on, and are the guard:
#: there is nothing of ours around them.
_TORCH = "probe/adapters/torch/"
BOUNDARY = frozenset(
    {
        "probe/guard.py:Guard.__init__",
        "probe/guard.py:Guard.__call__",
        "probe/guard.py:Guard.__call__.<locals>.call",
        "probe/guard.py:Guard.attempt",
        "probe/guard.py:Guard.quietly",
        "probe/guard.py:_Quiet.__init__",
        "probe/guard.py:_Quiet.__enter__",
        "probe/guard.py:_Quiet.__exit__",
        "probe/checks/function_mode.py:FunctionMode.__torch_function__",
        "probe/checks/function_mode.py:plain_function",
        "probe/monitor.py:Monitor.log",
        "probe/monitor.py:Monitor.close",
        "probe/script_runner.py:_guard_of",
        "probe/warning_places.py:CallingPlaces.call",
        f"{_TORCH}torch_closures.py:_reporting.<locals>.evaluate",
        f"{_TORCH}torch_hook_tables.py:_HookTable.values",
        f"{_TORCH}torch_hooks.py:Hook.__call__",
        f"{_TORCH}torch_hooks.py:OpeningHook.__call__",
        f"{_TORCH}torch_hooks.py:OutputHook.__call__",
        f"{_TORCH}torch_hooks.py:_record_gradient",
        f"{_TORCH}torch_kind.py:_watched_draw.<locals>.build.<locals>.sample",
        f"{_TORCH}torch_kind.py:_watched_iteration.<locals>.iterate",
        f"{_TORCH}torch_kind.py:_watched_score.<locals>.build.<locals>.log_prob",
        f"{_TORCH}torch_networks.py:_announce.<locals>.add_param_group",
        f"{_TORCH}torch_operators.py:_Mode.__torch_dispatch__",
        f"{_TORCH}torch_patches.py:_announcing.<locals>.around.<locals>.call",
        f"{_TORCH}torch_patches.py:_contexts",
        f"{_TORCH}torch_patches.py:_safely",
        f"{_TORCH}torch_patches.py:_watched_backward.<locals>.backward",
        f"{_TORCH}torch_patches.py:_watched_grad.<locals>.grad",
        f"{_TORCH}torch_patches.py:_watched_scale.<locals>.scale",
        f"{_TORCH}torch_patches.py:_watched_step.<locals>.step",
        f"{_TORCH}torch_patches.py:_Around.__enter__",
        f"{_TORCH}torch_patches.py:_Around.__exit__",
        f"{_TORCH}torch_patches.py:_Around.__init__",
        f"{_TORCH}torch_patches.py:report",
        f"{_TORCH}torch_quantities.py:_replace.<locals>.call",
        f"{_TORCH}torch_unknown_model.py:_kept_from_the_script.<locals>.call",
    }
)
#: Step from which on the sampled late trials raise.
_LATE = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one trial tells.

    Attributes:
        ended: What ended the training, if something did.
        differs: Whether a loss, a parameter or the random generator is another than without us.
        messages: What was said, besides what a healthy watched training says.
        state: The state of the run that the training has finished; empty where nobody asked.
        is_reached: Whether the function was called, and has raised.
    """

    training: str
    function: str
    kind: str
    step: int
    ended: str
    differs: bool
    messages: tuple[str, ...]
    state: str
    is_reached: bool

    @property
    def is_good(self) -> bool:
        """Return whether the training went on unharmed and one message said what failed."""
        return not self.ended and not self.differs and len(self.messages) == 1 and self.state in ("", "finished")


@dataclass(frozen=True, slots=True)
class Known:
    """A training: its outcome without us, what it says when it is watched, and the functions of ours that it calls."""

    training: Training
    plain: Outcome
    watched: Outcome
    functions: Mapping[str, str]


def prepared(names: Collection[str]) -> list[Known]:
    """Run each training without us and watched, which compiles what is compiled, and list the functions.

    Args:
        names: Of the trainings; all of them where it is empty.
    """
    known = []
    for training in TRAININGS:
        if names and training.name not in names:
            continue
        plain = outcome_of(training, is_watched=False)
        watched = outcome_of(training, is_watched=True)
        if plain.ended or watched.ended or (plain.losses, plain.weights) != (watched.losses, watched.weights):
            raise RuntimeError(f"{training.name} does not run as it should: {plain.ended}{watched.ended}")
        functions = _listed(training)
        known.append(Known(training, plain, watched, functions))
    return known


def _listed(training: Training) -> dict[str, str]:
    found: dict[str, str] = in_a_fork(
        lambda: functions_called(lambda begin: training.run(is_watched=True, before_step=begin))
    )
    return found


def planned(known: Iterable[Known], injector: Injector, *, seed: int, share: float) -> Iterator[Trial]:
    """Yield the trials: each function in one of the trainings that call it; other kinds and later steps for a share."""
    draws = random.Random(seed)
    calling: dict[str, list[Training]] = {}
    for one in known:
        for name in one.functions:
            calling.setdefault(name, []).append(one.training)
    for name in sorted(calling):
        if not injector.knows(name):
            continue
        yield Trial(draws.choice(calling[name]), name, "RuntimeError", 0)
        if draws.random() < share:
            for kind in KINDS[1:]:
                yield Trial(draws.choice(calling[name]), name, kind.__name__, 0)
        if draws.random() < share:
            yield Trial(draws.choice(calling[name]), name, "RuntimeError", _LATE)


def verdict_of(trial: Trial, known: Mapping[str, Known], injector: Injector) -> Verdict:
    """Run the trial and compare it."""
    before = known[trial.training.name]
    outcome = trial.run(injector)
    usual = Counter(before.watched.messages)
    said = list((Counter(outcome.messages) - usual).elements())
    differs = (outcome.losses, outcome.weights) != (before.plain.losses, before.plain.weights)
    return Verdict(
        trial.training.name,
        trial.function,
        trial.kind,
        trial.step,
        outcome.ended,
        differs and not outcome.ended,
        tuple(said),
        outcome.state,
        outcome.is_reached or bool(outcome.ended),
    )


def guard_rows(
    *,
    seed: int,
    share: float,
    most: int | None = None,
    folder: str = "",
    trainings: Collection[str] = (),
    report: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the part `guard`; write each verdict into the report, one a line."""
    known = prepared(trainings)
    injector = Injector()
    trials = list(planned(known, injector, seed=seed, share=share))
    trials = [one for one in trials if one.function.startswith(folder) and not is_boundary(one.function)]
    if most is not None:
        trials = random.Random(seed).sample(trials, min(most, len(trials)))
    by_name = {one.training.name: one for one in known}
    verdicts, began = [], time.monotonic()
    with (report or Path("/dev/null")).open("w") as file:
        for number, trial in enumerate(trials):
            verdict = verdict_of(trial, by_name, injector)
            verdicts.append(verdict)
            file.write(json.dumps(asdict(verdict)) + "\n")
            file.flush()
            if number % 100 == 0:
                print(f"{number} of {len(trials)} trials, {time.monotonic() - began:.0f} s", file=sys.stderr)
    for part in ("probe", "insight", "storage"):
        mine = [one for one in verdicts if one.function.startswith(part)]
        yield from _rows(part, mine) if mine else ()


def is_boundary(function: str) -> bool:
    """Return whether the function is the guard itself, or one of those that torch or a script calls."""
    return function.rpartition(":")[0] in BOUNDARY


def _rows(part: str, verdicts: list[Verdict]) -> Iterator[dict[str, Any]]:
    case = f"guard: functions of {part}/"
    inside = [one for one in verdicts if not is_boundary(one.function) and one.is_reached]
    tried = {one.function for one in verdicts if not is_boundary(one.function)}
    yield at_least(None, case, "functions_tried", len(tried), "count")
    yield at_least(None, case, "trials", len(inside), "count")
    yield at_most(0, case, "trainings_ended", sum(bool(one.ended) for one in inside), "count")
    yield at_most(0, case, "trainings_that_differ", sum(one.differs for one in inside), "count")
    yield at_most(0, case, "without_message", sum(not one.ended and not one.messages for one in inside), "count")
    yield at_most(0, case, "several_messages", sum(not one.ended and len(one.messages) > 1 for one in inside), "count")
    states = [one for one in inside if one.state not in ("", "finished") and not one.ended]
    yield at_most(0, case, "runs_in_another_state", len(states), "count")
