"""Diagnosis of a run: live, as a listener of its writer, and offline, from the store."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from ..storage import Event, Finding, Run, RunState, StepRecord, Store, StoreDamaged, Structure
from ..storage.training_kinds import TrainingKind
from .diagnosis_report import Diagnosis
from .engine import Engine
from .failure import killed
from .hangs.observation import hang_of_run
from .root_causes import appearance, folded, leading
from .rules import RULES
from .schedule_thinning import thinning_of
from .verdict import Judgement, RunFacts, judge
from .watchpoints import rules_with


class LiveDiagnosis:
    """A listener that runs the rules on every record on its way into the store.

    Args:
        rank: The recording process.
    """

    def __init__(self, *, rank: int = 0) -> None:
        self._rank = rank
        self._run: Run | None = None
        self._last_step = -1
        self._engine = Engine(RULES, rank=rank)

    def begin(self, run: Run, structure: Structure) -> None:
        """Start with this run; a second call with the same run updates the structure and keeps the histories."""
        if self._run is None or self._run.id != run.id:
            self._last_step = run.last_step
            self._engine = Engine(rules_with(RULES, run.config), rank=self._rank, config=run.config)
        self._run = run
        self._engine.learn_structure(structure)

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Take the records that will be observed next, one by one."""
        self._engine.foresee(records)

    def observe(self, record: StepRecord) -> tuple[Finding, ...]:
        """Return the findings of this record."""
        self._last_step = max(self._last_step, record.step)
        return self._engine.observe(record)

    def end(self) -> tuple[Finding, ...]:
        """Return no findings: every rule reports as soon as it can, so a killed run loses none."""
        return ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far, by first step and data flow."""
        return self._engine.findings

    @property
    def judgement(self) -> Judgement:
        """The verdict so far, as of a running run, with its reasons."""
        return judge(self._engine.findings, self._engine.facts)

    def diagnosis(self, ended: Run | None = None) -> Diagnosis:
        """Return the diagnosis so far, as of a running run; only the store knows how a run ended.

        Args:
            ended: The run as the store has it at its end.
        """
        state: RunState = "running" if ended is None else ended.state
        found = _conclude(self._run.id if self._run else "", state, [self._engine])
        error = "" if ended is None else ended.error
        return replace(found, last_step=self._last_step, error=error, ranks=(self._rank,))


def diagnose(store: Store, run: str, *, write: bool = False, on_damage: Literal["raise", "log"] = "raise") -> Diagnosis:
    """Diagnose a stored run, finished or not, with the engine of the live diagnosis.

    Args:
        store: Where the run is.
        run: Its id, a unique prefix, a name, or `latest`.
        write: Also write the findings into the store.
        on_damage: What happens where a file of the run cannot be read: an error, or a diagnosis of the rest, which
            names what is missing and does not call the run healthy.

    Raises:
        RunNotFound: None or several runs answer to it.
        StoreDamaged: Something cannot be read, and `on_damage` is `raise`.
    """
    found = store.find_run(run)
    engines: list[Engine] = []
    damage: list[str] = []
    thinned = None
    for rank in found.ranks:
        engine = Engine(rules_with(RULES, found.config), rank=rank, config=found.config)
        engines.append(engine)
        with _read_or_told(damage, on_damage, f"rank {rank}"):
            last_step = _replay(store, found.id, rank, engine)
            _show_hangs(store, found, rank, engine, last_step)
            if found.state in ("failed", "crashed"):
                show_end(store, found, rank, engine)
    muted: frozenset[tuple[str, str]] = frozenset()
    with _read_or_told(damage, on_damage, "the run"):
        if found.state in ("failed", "crashed") and len(found.ranks) > 1:
            show_hang_at_end(store, found, engines)
        thinned = thinning_of(store, found.id, found.ranks)
        muted = frozenset(store.muted(found.id))
    diagnosis = replace(
        _conclude(found.id, found.state, engines, muted),
        error=found.error,
        last_step=found.last_step,
        ranks=found.ranks,
        thinned=thinned,
    )
    if damage := [*(store.damage if on_damage == "log" else ()), *damage]:
        diagnosis = _of_a_damaged_run(diagnosis, damage)
    if write and (every := _findings(engines)):
        store.write_findings(found.id, sorted(every, key=appearance))
    return diagnosis


@contextmanager
def _read_or_told(damage: list[str], on_damage: Literal["raise", "log"], whose: str) -> Iterator[None]:
    """Read a part of the run; note that it cannot be read whole where damage is to be told."""
    try:
        yield
    except StoreDamaged as error:
        if on_damage == "raise":
            raise
        damage.append(f"{whose}: {error}")


def _of_a_damaged_run(diagnosis: Diagnosis, damage: Sequence[str]) -> Diagnosis:
    """Return the diagnosis of what could be read: it names what could not, and does not call the run healthy."""
    told = replace(diagnosis, damage=tuple(dict.fromkeys(damage)))
    if diagnosis.verdict != "healthy":
        return told
    doubt = Judgement(reasons=("a part of the run is damaged; the rest shows nothing wrong",))
    return replace(told, verdict=doubt.verdict, judgement=doubt)


def _replay(store: Store, run: str, rank: int, engine: Engine) -> int:
    """Show the engine every record of the rank, each after the structure that the model had then.

    Returns:
        The last step; -1 without any.
    """
    last_step = -1
    former = deque(store.former_structures(run, rank=rank))
    newest = store.structure(run, rank=rank)
    engine.learn_structure(former[0].structure if former else newest)
    for record in store.replay(run, rank=rank):
        while former and (record.step, record.micro_step) > (former[0].step, former[0].micro_step):
            former.popleft()
            engine.learn_structure(former[0].structure if former else newest)
        engine.observe(record)
        last_step = record.step
    if former:
        engine.learn_structure(newest)
    return last_step


def _show_hangs(store: Store, run: Run, rank: int, engine: Engine, last_step: int) -> None:
    """Show the engine hangs of a step that has not ended, whose events no record carries."""
    for kind in ("hang", "hang_over"):
        events = tuple(event for event in store.events(run.id, rank=rank, kind=kind) if event.step > last_step)
        if events:
            engine.observe(StepRecord(max(event.step for event in events), run.updated_at, events=events))


def show_hang_at_end(store: Store, run: Run, engines: Sequence[Engine]) -> None:
    """Show the first engine the hang that the ranks' last words tell, where none lived long enough to report it."""
    if any(finding.cause == "hang" and finding.severity != "info" for engine in engines for finding in engine.findings):
        return
    report, _ = hang_of_run(store, run.id)
    if report.state in ("hang", "failed") and report.culprits:
        step = max(run.last_step, 0)
        engines[0].observe(StepRecord(step, run.updated_at, events=(Event("hang", step, data=report.data()),)))


def show_end(store: Store, run: Run, rank: int, engine: Engine) -> None:
    """Show the engine what ended the run, where no record carries it."""
    ends = store.events(run.id, rank=rank, kind="exception")
    carried = [event for record in store.replay(run.id, rank=rank, limit=2) for event in record.events]
    last = max(run.last_step, 0)
    if run.state == "crashed" and rank == run.first_rank:
        ends += (killed(run, last),)
    if events := tuple(event for event in ends if event not in carried):
        engine.observe(StepRecord(last, run.updated_at, events=events))


def _findings(engines: Sequence[Engine], muted: Collection[tuple[str, str]] = ()) -> list[Finding]:
    """Return the findings of all ranks without those that a person has muted by rule and site."""
    every = (finding for engine in engines for finding in engine.findings)
    return [finding for finding in every if (finding.rule, finding.site) not in muted]


def _conclude(run: str, state: RunState, engines: list[Engine], muted: Collection[tuple[str, str]] = ()) -> Diagnosis:
    reasons: dict[str, str] = {}
    for engine in engines:
        reasons.update(engine.not_run())
    ran = {name for engine in engines for name in engine.run()}
    batches = {key: batch for engine in engines for key, batch in engine.batches.items()}
    changes = {key: change for engine in engines for key, change in engine.changes.items()}
    rules_run = tuple(sorted(ran - reasons.keys()))
    return concluded(
        Diagnosis(
            run=run,
            verdict="undetermined",
            state=state,
            rules_run=rules_run,
            batches=batches,
            changes=changes,
            kind=engines[0].kind if engines else TrainingKind(),
        ),
        _findings(engines, muted),
        reasons,
        engines[0].structure if engines else None,
        engines[0].facts if engines else RunFacts(),
    )


def concluded(
    diagnosis: Diagnosis,
    findings: Iterable[Finding],
    reasons: Mapping[str, str],
    structure: Structure | None,
    facts: RunFacts,
) -> Diagnosis:
    """Return the diagnosis with these findings: sorted, folded under their root causes, and judged.

    Args:
        reasons: Why rules could not run.
        structure: Of the model, for its data flow.
        facts: What is known beside the findings, of the first rank.
    """
    found = tuple(sorted(findings, key=appearance))
    families = folded(found, structure)
    under = {root.key: following for root, following in families}
    roots = leading(root for root, _ in families)
    judgement = judge(found, replace(facts, state=diagnosis.state, run=diagnosis.run))
    return replace(
        diagnosis,
        verdict=judgement.verdict,
        judgement=judgement,
        root_causes=roots,
        follows=tuple(under[root.key] for root in roots),
        findings=found,
        rules_not_run=tuple(sorted(reasons)),
        reasons=dict(sorted(reasons.items())),
    )
