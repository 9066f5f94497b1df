"""Which findings are muted, and a condition replayed over the stored history."""

from dataclasses import dataclass
from typing import Final

from ...insight import Rule
from ...insight.engine import Engine
from ...insight.watchpoints import rules_with
from ...storage import Finding, Run
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
