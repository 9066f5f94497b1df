"""A run as the catalogue lists it, the structure of the model that it trained, and how a run is looked up."""

import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from .errors import InvalidName, RunNotFound, nearest
from .metric_series import Severity
from .records import Json

#: The rank of the recording that holds the roll-up over all ranks; no list of ranks has it.
ALL_RANKS: Final = -1
RunState = Literal["running", "finished", "failed", "crashed"]
#: A run's state as people read it: one that a person or a reaction has ended did not fail.
StateWords = RunState | Literal["interrupted", "stopped"]
#: What ends a run on purpose, by the type of its error.
_ON_PURPOSE: Final[Mapping[str, StateWords]] = {"KeyboardInterrupt": "interrupted", "TrainingStopped": "stopped"}
RunKind = Literal["training", "evaluation", "imported"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as `runs` lists it.

    Args:
        id: Unique, sorts by time, usable as a file name: `20261121-053312-digits-3f2a91c4`.
        state: `crashed` means that the run is not ended and its writer's heartbeat has stopped.
        created_at: Unix seconds, as `updated_at`.
        last_step: The newest step of any rank, -1 before the first.
        worst: Severity of its worst unmuted finding, None when it has none.
        parent: Id of the run that this one evaluates, None for a training.
        error: What ended a failed run, empty otherwise.
        host: Facts about the machine, and about `script`, `arguments`, `git`, `packages`, `variables` and
            `devices` from the monitor.
    """

    id: str
    name: str
    state: RunState
    created_at: float
    updated_at: float
    kind: RunKind = "training"
    framework: str = ""
    ranks: tuple[int, ...] = (0,)
    last_step: int = -1
    worst: Severity | None = None
    findings: int = 0
    parent: str | None = None
    error: str = ""
    tags: Mapping[str, Json] = field(default_factory=dict)
    remark: str = ""
    config: Mapping[str, Json] = field(default_factory=dict)
    host: Mapping[str, Json] = field(default_factory=dict)

    @property
    def first_rank(self) -> int:
        """The rank that is read where nobody chooses one; 0 may be missing, as where only some ranks were imported."""
        return first_rank(self.ranks)

    @property
    def state_words(self) -> StateWords:
        """The state for people: a run that Ctrl-C ended is `interrupted`, one that a reaction ended is `stopped`."""
        return state_in_words(self.state, self.error)


def state_in_words(state: RunState, error: str) -> StateWords:
    """Return the state for people.

    Args:
        error: What ended the run, `KeyboardInterrupt: words`; empty if nothing did.
    """
    return _ON_PURPOSE.get(error.partition(":")[0].strip(), state) if state == "failed" else state


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of the model.

    Args:
        site: Dotted name; the root is the empty string.
        kind: Class name, e.g. `Dense` or `ReLU`.
        order: Position among the module calls of the first forward, in order of completion; -1 if never called.
        inputs: Sites whose outputs it consumed in that forward, as far as they are known.
        is_leaf: True when it has no child modules.
        direct: Those of `inputs` whose output it received unchanged, with no operation between.
    """

    site: str
    kind: str
    order: int = -1
    inputs: tuple[str, ...] = ()
    is_leaf: bool = True
    direct: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of the model.

    Args:
        site: Dotted name, e.g. `decoder.0.attn.q_proj.weight`; its module is everything before the last dot.
        group: `optimizer/group` indices that step it, e.g. `(0, 1)`; None when no watched optimizer does.
        storage: Equal for parameters that share memory; one that several modules hold stands under each of its sites.
        more_groups: Further groups that step it too.
    """

    site: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool = True
    group: tuple[int, int] | None = None
    storage: int = 0
    more_groups: tuple[tuple[int, int], ...] = ()

    @property
    def every_group(self) -> tuple[tuple[int, int], ...]:
        """All groups that step it."""
        return self.more_groups if self.group is None else (self.group, *self.more_groups)


@dataclass(frozen=True, slots=True)
class OptimizerInfo:
    """One watched optimizer: its class and the options of its groups (`lr`, `weight_decay`, `betas`, ...)."""

    kind: str
    groups: tuple[Mapping[str, Json], ...] = ()


@dataclass(frozen=True, slots=True)
class Structure:
    """The modules, parameters and optimizers of a model after its first forward; recorded again when they change."""

    modules: tuple[ModuleInfo, ...] = ()
    parameters: tuple[ParameterInfo, ...] = ()
    optimizers: tuple[OptimizerInfo, ...] = ()
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FormerStructure:
    """The structure of a model before a change.

    Args:
        step: Step of the last record with this structure; `micro_step` likewise.
    """

    step: int
    micro_step: int
    structure: Structure


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


#: The longest name of a run: our choice, as long as the longest of a site.
_LONGEST_NAME: Final = 1000


def first_rank(ranks: Iterable[int]) -> int:
    """Return the lowest rank; that of the roll-up only where it is alone."""
    return min((rank for rank in ranks if rank != ALL_RANKS), default=ALL_RANKS)


def rank_words(rank: int) -> str:
    """Return a rank as messages name it."""
    return "the roll-up" if rank == ALL_RANKS else f"rank {rank}"


def begun_run(
    name: str,
    *,
    kind: RunKind,
    framework: str,
    rank: int,
    run_id: str | None,
    parent: str | None,
    config: Mapping[str, Json] | None,
    tags: Mapping[str, Json] | None,
    host: Mapping[str, Json] | None,
) -> Run:
    """Return a run that begins now; the arguments are those of `Store.begin_run`.

    Raises:
        InvalidName: The name, or the id, cannot be stored.
    """
    now = time.time()
    return Run(
        id=new_run_id(name, now) if run_id is None else check_run_id(run_id),
        name=name,
        state="running",
        created_at=now,
        updated_at=now,
        kind=kind,
        framework=framework,
        ranks=(rank,),
        parent=parent,
        config=dict(config or {}),
        tags=dict(tags or {}),
        host=dict(host or {}),
    )


def new_run_id(name: str, now: float) -> str:
    """Return an id that sorts by time and can be a file name: `20261121-053312-digits-3f2a91c4`.

    Raises:
        InvalidName: The name is too long, or cannot be stored as text.
    """
    if len(name) > _LONGEST_NAME:
        raise InvalidName(
            f"a run has a name of at most {_LONGEST_NAME} characters, got {len(name)}, {name[:40]!r}...; shorten it"
        )
    if re.search("[\0\ud800-\udfff]", name):
        raise InvalidName(
            f"the name of a run holds no null characters and halves of surrogate pairs, got {name[:80]!r}; remove them"
        )
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{slug}-{secrets.token_hex(4)}"


def check_run_id(run_id: str) -> str:
    """Return the id, when it can be a file name.

    Raises:
        InvalidName: It cannot.
    """
    if not _ID.fullmatch(run_id) or ".rank" in run_id:
        raise InvalidName(
            f"run id {run_id!r} must be 1 to 128 letters, digits, dots, dashes or underscores, begin with a letter or "
            f"digit and not hold '.rank'"
        )
    return run_id


def find_run(runs: Sequence[Run], reference: str) -> Run:
    """Return the run of `runs` (newest first) with that id, unique id prefix, name (its newest), or `latest`.

    Raises:
        RunNotFound: No run matches, or several do.
    """
    if not runs:
        raise RunNotFound(f"no run {reference!r}: the store is empty; `mindscope demo` makes a run")
    if reference == "latest":
        return runs[0]
    for run in runs:
        if run.id == reference:
            return run
    for run in runs:
        if run.name == reference:
            return run
    begun = [run for run in runs if reference and run.id.startswith(reference)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        listed = ", ".join(run.id for run in begun[:5])
        raise RunNotFound(f"{len(begun)} runs begin with {reference!r}: {listed}; give more of the id")
    known = [run.id for run in runs] + [run.name for run in runs]
    raise RunNotFound(f"no run {reference!r}{nearest(reference, known)}; `mindscope runs` lists them")
