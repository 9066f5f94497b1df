"""Join probe, storage and insight: a monitor whose records are diagnosed on their way into a store."""

import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from .garbage import uncollected
from .insight import RULES, Diagnosis, LiveDiagnosis, diagnose
from .probe import Config, ConfigError, Monitor, begin, load_config
from .probe import run_script as _run_script
from .probe import watch as _watch
from .probe.adapters import Adapter
from .probe.failed_start import record_failed_start
from .probe.guard import Guard
from .probe.heartbeat import Judge, Judgement
from .probe.process_ranks import join_run
from .probe.process_ranks import process_rank as rank_here
from .probe.script_world import TrainingScript
from .probe.watch_session import recorded_config
from .spawned_process import ChildRecipe, children_watched
from .storage import Json, Listener, Retention, Run, Store, StreamStore, nearest, open_store
from .storage.last_words import LastWord

#: Tag of a run whose script has trained another model before, in that run.
AFTER: Final = "after"
#: Runs of child processes that are looked for (our choice: more than anybody trains at a time).
_MOST_RUNS: Final = 50


def watch(
    model: object,
    optimizer: object | Sequence[object] | None = None,
    *,
    store: Store | str | Path = "runs/",
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | None = None,
    tags: Mapping[str, Json] | None = None,
    listeners: Sequence[Listener] = (),
    rank: int | None = None,
    run_id: str | None = None,
    resume: str | None = None,
) -> Monitor:
    """Record the training of the model, diagnose it while it runs, and return the monitor.

    Args:
        model: A torch Module, a MindSpore Cell or an engine Cell.
        optimizer: The optimizer that steps its parameters, or several; None finds it at the first step (torch only).
        store: A folder, `postgresql+psycopg://...`, a stream that `mindscope collect` drains (`nats://...`,
            `kafka://...`), `memory:`, or a store that is open already.
        config: A YAML or JSON file, or a mapping; None records every quantity at every step.
        run: The run's name; by default the model's class.
        tags: Values that tell this run from others, e.g. `{"lr": 3e-4}`.
        listeners: Receive every record, in addition to the diagnosis.
        rank: Rank of this process, where several train one model. Detected by default, as is the common run.
        run_id: The run to join, for processes that cannot agree on one by themselves.
        resume: The run of the store that this one continues; the diagnosis reports state that was not restored.

    Raises:
        ConfigError, SiteNotFound, NotWatchable: An argument is wrong; the message says what would be right.
        StoreError: The store cannot take a new run.
    """
    settings = load_config(config)
    if not listeners:  # listeners may find causes of their own
        check_causes(settings)
    own = rank_here().rank if rank is None else rank
    diagnosis = _listener(settings, LiveDiagnosis(rank=own))
    opened = _opened(_absolute(store), settings) if isinstance(store, str | Path) else store
    monitor = _watch(
        model,
        optimizer,
        store=opened,
        config=settings,
        source=Path(config) if isinstance(config, str | Path) else None,
        run=run,
        tags=tags,
        listeners=(diagnosis, *listeners),
        rank=rank,
        run_id=run_id,
        resume=resume,
        judge=hang_judge,
    )
    _prune(opened, settings, own)
    return monitor


def run_script(
    script: Path | TrainingScript,
    arguments: Sequence[str],
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    store: str | Path = "runs/",
    name: str | None = None,
    report: Callable[[Run, Diagnosis | None], None] | None = None,
) -> int:
    """Run a training script unchanged, record and diagnose its training, and return the exit code.

    Args:
        script: A Python file, or a module.
        arguments: The arguments that the script finds in `sys.argv[1:]`.
        config: A YAML or JSON file, or a mapping; None records everything at every step. Edits of a file take effect
            from the model's first call on.
        name: The run's name; by default the script's.
        report: Called with the run when it begins, and again, with its diagnosis, when it has ended.

    Raises:
        ScriptNotFound, ConfigError, StoreError: Before the script is started.
        SiteNotFound, StoreError: At the model's first call, which stops the script.
    """
    settings = load_config(config)
    check_causes(settings)
    opened = _opened(_absolute(store), settings)
    if not isinstance(opened, StreamStore):
        opened.runs(limit=1)  # a store that cannot be read stops the command before the script starts
    title = name or (script.stem if isinstance(script, Path) else script.path.stem)
    # absolute, since the script may change its working directory
    file = Path(config).absolute() if isinstance(config, str | Path) else None
    recording = ScriptRecording(settings, opened, title, source=file, report=report)
    recipe = ChildRecipe(None if file is None else str(file), _absolute(store), title)
    with children_watched(recipe):
        code = _run_script(
            script, arguments, recording.start, is_recorded=recording.is_recorded_elsewhere, failed=recording.failed
        )
    recording.guard.attempt(recording.conclude)
    return code


class ScriptRecording:
    """Begins the run of a script's model when it is found, and reports it at its end.

    A model that is trained after it has a run of its own, with the tag `after` that names the run before.

    Args:
        title: The run's name.
        source: The file of the settings, whose changes are followed.
        report: Called with the run when it begins, and with its diagnosis when it has ended; not in ranks beside 0.

    Attributes:
        guard: Takes what fails as the run is reported: the script has its own exit code.
    """

    def __init__(
        self,
        settings: Config,
        store: Store,
        title: str,
        *,
        source: Path | None = None,
        report: Callable[[Run, Diagnosis | None], None] | None = None,
    ) -> None:
        self._settings, self._store, self._title, self._source = settings, store, title, source
        self._report = report
        self.guard = Guard(lambda _: None, lambda: "the run cannot be reported")
        self._recorded: list[tuple[Run, LiveDiagnosis]] = []
        self._since = time.time()

    def start(self, adapter: Adapter) -> Monitor:
        """Begin to record the model, as a rank of the run that all processes of the training share."""
        with uncollected():
            return self._start(adapter)

    def _start(self, adapter: Adapter) -> Monitor:
        here = rank_here()
        live = LiveDiagnosis(rank=here.rank)
        settings = self._settings
        before = self._recorded[-1][0].id if self._recorded else ""
        if here.size > 1 and self._source is None:  # ranks that thin by their own times would not record the same steps
            settings = settings.model_copy(update={"budget": None})
        monitor = begin(
            adapter,
            self._store,
            settings,
            name=self._title,
            tags={AFTER: before} if before else {},
            listeners=(_listener(settings, live),),
            source=self._source,
            rank=here.rank,
            run_id=join_run(here, self._title, time.time()),
            judge=hang_judge,
        )
        self._recorded.append((monitor.run, live))
        _prune(self._store, settings, here.rank)
        if self._report is not None and not here.rank:
            self.guard.attempt(self._report, monitor.run, None)
        return monitor

    def failed(self, error: Exception) -> None:
        """Record a run that has ended before a model was found."""
        here = rank_here()
        run = record_failed_start(
            self._store,
            error,
            name=self._title,
            config=recorded_config(self._settings),
            rank=here.rank,
            run_id=join_run(here, self._title, time.time()),
        )
        if not isinstance(self._store, StreamStore):
            diagnose(self._store, run.id, write=True)
        _prune(self._store, self._settings, here.rank)
        if self._report is not None and not here.rank:
            self._report(run, None)

    def conclude(self) -> None:
        """Report the run at its end, or the runs that processes of the script have recorded."""
        if self._report is None or rank_here().rank:
            return
        if not self._recorded:
            for run in self._runs_of_children():
                self._report(run, diagnose(self._store, run.id))
        for run, live in self._recorded:
            if run.ranks == (0,):
                ended = self._store.find_run(run.id)
                self._report(ended, live.diagnosis(ended))

    def is_recorded_elsewhere(self) -> bool:
        """Return whether processes that the script has started recorded a training, or may have where none can ask."""
        return isinstance(self._store, StreamStore) or bool(self._runs_of_children())

    def _runs_of_children(self) -> list[Run]:
        if isinstance(self._store, StreamStore):  # it cannot be asked
            return []
        runs = self._store.runs(limit=_MOST_RUNS)
        return [run for run in runs if run.name == self._title and run.created_at >= self._since]


def watch_child(recipe: ChildRecipe, module: object, inputs: object) -> None:
    """Watch the first model that this spawned process trains, beginning with the module that is about to be called."""
    from .probe.adapters.torch.torch_unknown_model import TorchFinder  # noqa: PLC0415  optional

    settings, source = load_config(recipe.config), None if recipe.config is None else Path(recipe.config)
    recording = ScriptRecording(settings, _opened(recipe.store, settings), recipe.name, source=source)
    finder = TorchFinder(recording.start)
    finder.begin_with(module, inputs)


def _opened(store: str | Path, config: Config) -> Store:
    """Return the store by its URL; its new runs keep as many records as the configuration says."""
    return open_store(store, retention=Retention(config.retention.full, config.retention.fine))


def _prune(store: Store, config: Config, rank: int) -> None:
    """Remove old runs, if the configuration says so, once for all ranks; what a stream fills is not known here."""
    kept = config.retention
    if rank == 0 and not isinstance(store, StreamStore) and (kept.keep is not None or kept.max_size is not None):
        from .storage.upkeep import prune_beside  # noqa: PLC0415  only where the configuration asks for it

        prune_beside(store.url, keep_s=kept.keep, most_bytes=kept.max_size)


def _absolute(store: str | Path) -> str:
    """Return the store's URL, or its path from the root: the script may change its working directory."""
    text = str(store)
    return text if "://" in text or text == "memory:" else str(Path(text).expanduser().absolute())


def check_causes(config: Config) -> None:
    """Check that `on_finding` names only causes that the diagnosis can find.

    Raises:
        ConfigError: `on_finding` names causes that no rule has.
    """
    mistakes = unknown_causes(config)
    if mistakes:
        raise ConfigError("; ".join(mistakes), mistakes)


def unknown_causes(config: Config) -> tuple[str, ...]:
    """Return an error message for each cause that `on_finding` names and no rule has."""
    known = sorted({name for rule in RULES.values() for name in (rule.name, rule.cause)})
    patterns = dict.fromkeys(glob for reaction in config.on_finding for glob in reaction.causes)
    return tuple(
        f"on_finding: no rule finds a cause {glob!r}{nearest(glob, known)}; docs/catalogue/rules.md has all"
        for glob in patterns
        if not glob.startswith("watchpoint") and not any(fnmatchcase(name, glob) for name in known)
    )


def hang_judge(url: str, run: str) -> Judge:
    """Return what judges whether the ranks of this run hang."""
    from .insight.hangs.observation import Observer  # noqa: PLC0415  only where several ranks train

    observer = Observer.of_run(url, run)

    def judge(words: Mapping[int, LastWord], now: float) -> Judgement:
        report = observer.report(words, now)
        return Judgement(report.state in ("hang", "failed"), bool(report.culprits), report.reporter, report.data())

    return judge


def _listener(config: Config, live: LiveDiagnosis) -> Listener:
    """Return the listener that diagnoses records, and posts findings to the webhook if there is one."""
    hook = config.webhook
    if hook is None:
        return live
    from .insight.webhook import Webhook  # noqa: PLC0415  urllib3 adds warning filters, which a script would see

    return Webhook(live, hook.url, severity=hook.severity, timeout_s=hook.timeout_s, allow_private=hook.allow_private)
