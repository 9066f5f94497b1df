"""Which rules could fire, which findings are muted, and a condition replayed over the stored history."""

from dataclasses import dataclass
from typing import Final

from ...insight import RULES, Rule
from ...insight.engine import Engine
from ...insight.finding_onset import change_at
from ...insight.watchpoints import rules_with
from ...storage import Finding, Run, split_metric
from .reader import Reader

#: Most steps of one replay, the newest. Our choice: some ten seconds with a thousand layers.
REPLAYED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Replay:
    """The hits of a condition in the stored history.

    Args:
        records: Number of replayed records.
        is_whole: Whether these are all records of the run.
    """

    findings: tuple[Finding, ...]
    records: int
    is_whole: bool


def muted(reader: Reader, run: str) -> tuple[tuple[str, str], ...]:
    """Return the muted (rule, site) pairs."""
    return reader.cached(run, "muted", lambda store: store.muted(run))


def rules_run(reader: Reader, run: Run) -> frozenset[str]:
    """Return the rules that could have fired: their data was recorded for long enough."""
    needed = {need for rule in RULES.values() for need in rule.needs}
    known = {need for need in needed if _was_recorded(reader, run, need)}
    return frozenset(rule.name for rule in RULES.values() if _could_speak(rule, known, run.last_step + 1))


def _could_speak(rule: Rule, known: set[str], steps: int) -> bool:
    return all(need in known for need in rule.needs) and steps >= rule.warm_up


def _was_recorded(reader: Reader, run: Run, need: str) -> bool:
    kind, _, name = need.partition("/")
    if need == "record":
        return run.last_step >= 0
    if need == "structure":
        return bool(reader.structure(run.id).modules)
    if kind == "event":
        key = ("events", name)
        return bool(reader.cached(run.id, key, lambda store: store.events(run.id, kind=name, limit=1)))
    if kind == "scalar":
        return name in reader.scalars(run.id)
    return any(split_metric(metric)[0] == need for metric in reader.metrics(run.id))


def change_before(reader: Reader, run: Run, finding: Finding) -> str:
    """Return the change of the model's modules at or shortly before the finding began; empty if there was none."""
    rank = finding.rank if finding.rank in run.ranks else run.first_rank
    key = ("events", "modules_changed", rank)
    events = reader.cached(run.id, key, lambda store: store.events(run.id, rank=rank, kind="modules_changed"))
    return change_at(finding, events)


def replay_condition(reader: Reader, run: Run, condition: str) -> Replay:
    """Replay the history of every rank against a condition, spelled as a watchpoint.

    Raises:
        InvalidName: The condition is not understood.
        InvalidRule: As above.
    """
    rules = rules_with({}, {"watchpoints": [condition]})
    return reader.cached(run.id, ("replay", condition), lambda store: _replay(reader, run, rules))


def _replay(reader: Reader, run: Run, rules: dict[str, Rule]) -> Replay:
    found: list[Finding] = []
    records, is_whole = 0, True
    for rank in run.ranks:
        engine = Engine(rules, rank=rank, config=run.config)
        engine.learn_structure(reader.structure(run.id))
        for record in reader.read(lambda store, rank=rank: store.replay(run.id, rank=rank, limit=REPLAYED)):  # type: ignore[misc]
            engine.observe(record)
        records += engine.records
        is_whole &= engine.records < REPLAYED
        found += engine.findings
    return Replay(tuple(sorted(found, key=lambda finding: (finding.first_step, finding.rank))), records, is_whole)
