"""One run of the zoo that is judged: a healthy program or a mutant of one, and what is true of it."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..mutations import OPERATORS, Harm, harm, write_mutant
from .entries import GROUPS, Entry
from .interpreters import in_clone, interpreter
from .kept import Runner
from .logged import write_logged
from .trial import Cost, Watched


@dataclass(frozen=True, slots=True)
class Case:
    """What happened to one program at one seed.

    Args:
        operator: What broke it, empty for the program as it is.
        cause: The word that should be said; None where no word fits or nothing is wrong.
        attribute: Attribute of the module at fault; empty if no single one is.
        line: What was changed, for a person.
        harm: Of a mutant; None for the program as it is.
        plain: Its run without the monitor, `watched` the one with it.
        script: Of a mutant.
        against: What is said of it beside the healthy program at the first seed, which is given as a good run; None
            where that was not asked, and of this good run itself.
        logged: What is said of it with `ms.watch` and scalars; None where that was not asked, and of programs that
            have no such lines.
    """

    entry: Entry
    seed: int
    operator: str
    cause: str | None
    attribute: str
    line: str
    harm: Harm | None
    plain: Cost
    watched: Watched
    script: Path | None = None
    against: Watched | None = None
    logged: Watched | None = None

    @property
    def name(self) -> str:
        """`charlm`, or `charlm+negated-loss`."""
        return f"{self.entry.name}+{self.operator}" if self.operator else self.entry.name

    @property
    def is_fault(self) -> bool:
        """Whether it is a mutant that does harm; any other is a healthy run."""
        return self.harm is not None and self.harm.is_harmful

    @property
    def is_silent(self) -> bool:
        """Whether the run ends well with a finite result, as if nothing were wrong."""
        return self.plain.value - self.plain.value == 0.0


@dataclass(frozen=True, slots=True)
class Further:
    """Which further runs a case has beside the one under `mindscope run`."""

    has_reference: bool = False
    has_logged: bool = False


_NOTHING: Final = Further()


@dataclass(frozen=True, slots=True)
class Plan:
    """A mutant to be made."""

    entry: Entry
    operator: str
    choice: int


def plan_mutants(entries: Sequence[Entry], *, sample: int, seed: int) -> list[Plan]:
    """Draw mutants: families take turns, then programs, and no operator is drawn again before its turn comes.

    Args:
        sample: At most so many.
    """
    drawn = random.Random(seed)
    used: dict[str, int] = dict.fromkeys(OPERATORS, 0)
    waiting = {entry.name: _operators(entry) for entry in entries}
    plans: list[Plan] = []
    while len(plans) < sample and any(waiting.values()):
        for entry in drawn.sample(list(entries), len(entries)):
            names = waiting[entry.name]
            if not names or len(plans) >= sample:
                continue
            rare = min(used[name] for name in names)
            name = drawn.choice([name for name in names if used[name] == rare])
            names.remove(name)
            used[name] += 1
            plans.append(Plan(entry, name, drawn.randrange(1000)))
    return plans


def _operators(entry: Entry) -> list[str]:
    """Return the operators that fit a program; those planted at run time where the loop is another package's."""
    source = entry.program.read_text(encoding="utf-8")
    is_driver = entry.group != "plain"
    return [name for name, one in OPERATORS.items() if one.applies(source) and (is_driver or not one.is_planted)]


def healthy_case(
    entry: Entry, seed: int, runner: Runner, cache: Path, further: Further = _NOTHING, *, good: int = 0
) -> Case:
    """Run a program as it is, with and without the monitor.

    Args:
        good: The seed of the run that is the reference.

    Raises:
        RuntimeError: The program fails without the monitor, so it measures nothing.
    """
    python = interpreter(GROUPS[entry.group], cache)
    plain = runner.plain(python, entry.program, seed)
    if plain.value != plain.value:
        raise RuntimeError(f"entry {entry.name!r} fails at seed {seed} without the monitor: {plain.error}; mend it")
    watched = runner.watched(python, in_clone(entry.program, python), seed)
    case = Case(entry, seed, "", None, "", "", None, plain, watched)
    return _with_further(case, runner, cache, further, good)


def _with_further(case: Case, runner: Runner, cache: Path, further: Further, good: int) -> Case:
    """Run a case in the further ways; the reference is the program as it is at the seed `good`."""
    program, seed = case.entry.program, case.seed
    python, script = interpreter(GROUPS[case.entry.group], cache), case.script or program
    against = logged = None
    if further.has_reference and (script, seed) != (program, good):
        against = runner.against(python, script, seed, (program, good))
    if further.has_logged:
        title = script.parent.name if case.operator else case.name
        with_lines = write_logged(case.entry.name, script, cache / "logged" / f"{title}+{seed}")
        logged = runner.logged(python, with_lines, seed) if with_lines else None
    return replace(case, against=against, logged=logged)


def mutant_case(
    plan: Plan, seeds: Sequence[int], runner: Runner, cache: Path, further: Further = _NOTHING
) -> Case | None:
    """Make a mutant, measure its harm over the seeds, and watch it at the first; None if what is planted never ran."""
    entry, operator = plan.entry, OPERATORS[plan.operator]
    python = interpreter(GROUPS[entry.group], cache)
    folder = cache / "mutants" / f"{entry.name}+{plan.operator}+{plan.choice}"
    folder.mkdir(parents=True, exist_ok=True)
    was_reached = (folder / "reached").exists()
    mutant = write_mutant(entry.program, folder, operator, choice=plan.choice)
    (folder / "mutant").touch()
    if was_reached:
        (folder / "reached").touch()
    originals = [runner.plain(python, entry.program, seed).value for seed in seeds]
    costs = [runner.plain(python, mutant.script, seed) for seed in seeds]
    if not mutant.was_reached:
        return None
    judged = harm(originals, [cost.value for cost in costs], promise=operator.promise)
    watched = runner.watched(python, mutant.script, seeds[0])
    cause = operator.cause if judged.is_harmful else None
    case = Case(
        entry,
        seeds[0],
        plan.operator,
        cause,
        mutant.attribute,
        mutant.line,
        judged,
        costs[0],
        watched,
        mutant.script,
    )
    return _with_further(case, runner, cache, further, seeds[0])


def all_cases(
    entries: Sequence[Entry],
    plans: Sequence[Plan],
    seeds: Sequence[int],
    *,
    cache: Path,
    processes: int,
    further: Further = _NOTHING,
    has_additions: bool = False,
) -> list[Case]:
    """Run everything, so many programs side by side.

    Args:
        has_additions: Add what mutants give without the monitor to the file that is kept with the sources.
    """
    runner = Runner(cache, has_additions=has_additions)
    for group in {entry.group for entry in entries}:
        interpreter(GROUPS[group], cache)
    with ThreadPoolExecutor(processes) as pool:
        healthy = [
            pool.submit(healthy_case, entry, seed, runner, cache, further, good=seeds[0])
            for entry in entries
            for seed in seeds
        ]
        found = [case.result() for case in healthy]
        mutants = [pool.submit(mutant_case, plan, seeds, runner, cache, further) for plan in plans]
        return found + [case for waiting in mutants if (case := waiting.result()) is not None]
