"""The configuration a person writes, as YAML, JSON, a dict or keywords, and how it becomes values.

every: 1                      # cadence of every subject that says nothing else; 0: only what `subjects` names
subjects:                     # a number is a cadence, false is off; what is not named follows `every`
  activation: {every: 10, first: 100, windows: [[5000, 5100]]}
  gradient: {per_decade: 20, start: 1000, stop: 90000}
  optimizer: false
modules: ["*"]                # shell globs over the sites of modules
types: ["Linear", "*Norm"]    # and over their classes
depth: 3                      # and how many names deep they may lie
parameters: ["*.weight"]      # and of parameters
exclude: ["*.dropout"]
record: training              # training | gradients | all: which forwards count, see `Config.record`
accumulation_steps: 1         # backward passes that one optimizer step sums on purpose
kind: policy                  # of the training; without it, facts tell. `storage/training_kinds.py` has all words
expected_frozen: ["embed.*"]  # sites that are not meant to learn: the diagnosis takes them for granted
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64, scale: linear}   # log: an octave a bin
statistics: [kurtosis]        # of tensors, beside the ten: sum | abs_max | kurtosis | checksum | quantiles
routers: [{sites: ["*.gate"], top_k: 2, holds: logits, capacity_factor: 1.25}]   # whose load `router` records
queue: {capacity: 64, when_full: block}
retention: {full: 100000, fine: 1000000, keep: 30d, max_size: 10GB}   # records in full; older runs are removed
flight_recorder: {steps: 20, tensors: ["head"], memory: 512MB, severity: warning}   # kept, and stored if it must be
around: {after: 50, severity: warning}   # everything at each of so many steps behind a finding; a subject may differ
media: {steps: 100, per_step: 64, largest: 16MB, total: 1GB}   # of the images and sounds that you log
dump: {sites: ["head"], subjects: [activation, gradient], when: {windows: [[100, 110]]}, limit_gb: 10}   # whole tensors
nan_trace: false              # name the first operation, and its line, that makes NaN or infinity
causality: false              # check once that no output of a sequence model depends on later input
checks: true                  # at two steps, try on copies of the model what must hold: every input is used, and so on
watchpoints:                  # conditions of your own; `storage/watch_conditions.py` has the grammar
  - gradient/l2_norm @ decoder.* > 10 for 3 steps
  - {when: "nan @ *", name: any NaN, severity: error, pause: true}
on_finding: stop              # or checkpoint, skip_step, callback, pause; `reactions.py` shows how
webhook: {url: "https://example.org", severity: error, timeout_s: 5, allow_private: true}   # gets findings as JSON
budget: 3%                    # what tensors may cost the training; they are thinned to stay below, scalars are not
full_detail: {steps: 200, seconds: 30}   # with a budget: what is recorded whole at the start, up to one of both
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ...storage.errors import nearest
from ...storage.training_kinds import KINDS
from ...storage.watch_conditions import WatchCondition, parse_condition
from ...storage.writing.record_queue import CAPACITY
from ..collectors.collector import COLLECTORS
from ..kernels import MORE
from .cadence import NEVER, Cadence, Schedule, as_cadence
from .config_fields import Contradiction, Number, Section, Switch, Whole, plain
from .reaction_settings import Reaction, Watch, WebhookSettings, as_reactions, as_watch
from .sections import AnomalyWindow, Dump, FlightRecorder, HistogramSettings, MediaSettings, RetentionSettings, Router

#: Rare quantities are recorded at four more steps at the start, where most faults show.
_EARLY = ((1, 2), (4, 4), (7, 7))


def _share(value: object) -> object:
    value = plain(value)
    text = value.strip() if isinstance(value, str) else ""
    try:
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0) if text else value
    except ValueError:
        raise PydanticCustomError("share", "no number") from None
    if isinstance(share, bool) or not isinstance(share, int | float | None) or not (share is None or 0.0 < share < 1.0):
        raise PydanticCustomError("share", "no share")
    return share


def _subjects(value: object) -> object:
    if isinstance(value, list | tuple):
        if not all(isinstance(name, str) for name in value):
            raise PydanticCustomError("subject_names", "no list of names")
        if not value:
            raise PydanticCustomError("too_short", "no names")
        return dict.fromkeys(_known_subjects(), False) | dict.fromkeys(value, True)
    if not isinstance(value, Mapping):
        raise PydanticCustomError("subjects", "no subjects")
    return value


def _known_subjects() -> list[str]:
    """Return the names allowed below `subjects`; histograms have a section of their own."""
    return [name for name in COLLECTORS if name != "histogram"]


def _is_known(name: str) -> str:
    if name in ("histogram", "histograms"):
        raise ValueError(
            f"subject {name!r} has its cadence in `histograms`; write `histograms: {{every: 100}}`, 0 for none"
        )
    if name not in COLLECTORS:
        known = _known_subjects()
        every = f"; there are {', '.join(known)}"
        raise ValueError(f"no subject {name!r}{nearest(name, known) or every}")
    return name


def _is_a_kind(name: str) -> str:
    if name not in KINDS:
        every = f"; there are {', '.join(KINDS)}"
        raise ValueError(f"no kind {name!r}{nearest(name, KINDS) or every}")
    return name


def _chooses(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if not patterns:
        raise ValueError(
            "must name one pattern or more, got []; leave it out for all, and switch off in `subjects` what you do not "
            "want, as `subjects: {weight: false}`"
        )
    return patterns


def _is_about_what_there_is(watch: Watch) -> Watch:
    _check_statistic(parse_condition(watch.when))
    return watch


def _check_statistic(condition: WatchCondition) -> None:
    """Raise `ValueError` for a statistic that this subject never has; user-defined subjects are not checked."""
    columns = COLLECTORS[condition.subject].columns if condition.subject in COLLECTORS else ()
    known = (*columns, *chain(*MORE.values())) if "l2_norm" in columns else columns
    if condition.statistic and known and condition.statistic not in known:
        near = nearest(condition.statistic, known)
        raise ValueError(
            f"condition {condition.text!r}: {condition.subject} has no statistic {condition.statistic!r}{near}; it has "
            f"{', '.join(known)}"
        )


_Patterns = Annotated[tuple[str, ...], AfterValidator(_chooses)]


class Queue(Section):
    """The queue between the training and the writer."""

    capacity: Whole = Field(default=CAPACITY, ge=1)
    when_full: Literal["block", "drop"] = "block"


class FullDetail(Section):
    """The start of a training that is recorded whole although there is a budget; it ends with one of both."""

    steps: Whole = Field(default=0, ge=0)
    seconds: Number = Field(default=30.0, gt=0)


#: What `mindscope run` records if it is not told: everything at first, where most faults show, then within a budget.
DEFAULT_OF_RUN: Final[Mapping[str, object]] = {"budget": 0.05, "full_detail": {"steps": 200, "seconds": 30.0}}


class Config(Section):
    """What to record, where and when; the module's docstring shows all of it.

    Args:
        every: At every so many steps; 0 records nothing but what `subjects` names, and what histograms and dumps ask.
        record: `training`: forwards in training mode with gradients on; `gradients`: any with gradients on; `all`.
        types: Globs over the class names of modules; parameters are chosen by `parameters` alone.
        depth: Modules whose dotted name has more parts are left out; 0 leaves the model itself.
        kind: Of the training, a key of `storage.training_kinds.KINDS`; None has it recognised by what runs.
        expected_frozen: Globs of sites that are frozen, or left out of the optimizer, on purpose.
        statistics: Further statistics of every tensor but those of collectives; docs/catalogue/collectors.md has them.
        flight_recorder: The last steps in full, in memory; costs what recording them would, but for the writing.
        media: How many of the images and sounds that the training logs are kept.
        nan_trace: Follow NaN and infinity to the operation and the line that made them first; costs a pass over every
            result. After one is found it rests until a pass begins with finite weights.
        causality: After the first step, call the model a few times more, its first batch changed at single positions,
            and record whether outputs before them move. True says that they must not; "report" only looks.
        checks: At the second step and at step 25, call a copy of a torch model with changed inputs and read the graph
            of its loss, and record which claims about the training hold (docs/scalars.md, event `check`).
        watchpoints: Conditions that are checked at every record and reported like findings.
        on_finding: What the training does about findings; whatever it is, they are judged in step with the training,
            which then waits for the rules.
        webhook: Who gets the findings; the address itself is not recorded.
        retention: What the store keeps: of a run's records, and of the runs before it.
        budget: Cost of recording tensors that is allowed, as a share of the training's own time; `"3%"` is 0.03. None
            for any. 1 is refused, for it may mean a hundredth as well as all of it.
        full_detail: The start of the training, up to so many steps or seconds, that a budget leaves alone.
    """

    every: Whole = Field(default=1, ge=0)
    subjects: Annotated[
        dict[Annotated[str, AfterValidator(_is_known)], Annotated[Cadence, BeforeValidator(as_cadence)]],
        BeforeValidator(_subjects),
    ] = Field(default_factory=dict)
    modules: _Patterns = ("*",)
    parameters: _Patterns = ("*",)
    exclude: tuple[str, ...] = ()
    types: _Patterns = ("*",)
    depth: Whole | None = Field(default=None, ge=0)
    record: Literal["training", "gradients", "all"] = "training"
    accumulation_steps: Whole = Field(default=1, ge=1)
    kind: Annotated[str, AfterValidator(_is_a_kind)] | None = None
    expected_frozen: tuple[str, ...] = ()
    histograms: HistogramSettings = HistogramSettings()
    statistics: tuple[Literal["sum", "abs_max", "kurtosis", "checksum", "quantiles"], ...] = ()
    routers: tuple[Router, ...] = ()
    queue: Queue = Queue()
    flight_recorder: FlightRecorder | None = None
    around: AnomalyWindow = AnomalyWindow()
    media: MediaSettings = MediaSettings()
    dump: Dump | None = None
    nan_trace: Switch = False
    causality: Switch | Literal["report"] = False
    checks: Switch = True
    watchpoints: tuple[Annotated[Watch, BeforeValidator(as_watch), AfterValidator(_is_about_what_there_is)], ...] = ()
    on_finding: Annotated[tuple[Reaction, ...], BeforeValidator(as_reactions)] = ()
    webhook: WebhookSettings | None = None
    retention: RetentionSettings = RetentionSettings()
    budget: Annotated[Number | None, BeforeValidator(_share)] = None
    full_detail: FullDetail = FullDetail()

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield each conflict between settings that are valid on their own."""
        if any(reaction.do == "skip_step" for reaction in self.on_finding) and not self._measures_every_gradient():
            yield Contradiction(
                ("on_finding", "every", "subjects", "budget"),
                "on_finding: skip_step needs `gradient` at every step, and no budget that may thin it",
            )
        if not any(self.schedule(name).is_ever_due or self.is_in_flight(name) for name in self._wanted()):
            yield Contradiction(
                ("every", "subjects", "histograms", "flight_recorder", "around"),
                f"nothing is ever due: `every` is {self.every} and `subjects` names nothing with a cadence; "
                f"set `every` to 1 or more, or name what you want, as `subjects: {{loss: 1, gradient: 10}}`",
            )
        if self.dump is not None and not self.dump.when.schedule().is_ever_due and self.flight_recorder is None:
            yield Contradiction(
                ("dump.when", "flight_recorder"),
                "dump: `when` is never due; leave `dump` out, or say when, as `when: {windows: [[100, 110]]}`",
            )

        if self.retention.full > self.retention.fine:
            yield Contradiction(
                ("retention.full", "retention.fine"),
                f"retention: `fine` counts the records of `full` as well, so it must be no less: full is "
                f"{self.retention.full}, fine is {self.retention.fine}",
            )

    def _wanted(self) -> list[str]:
        """Return the subjects that count as requested: histograms only where the configuration names them."""
        return [name for name in COLLECTORS if name != "histogram" or "histograms" in self.model_fields_set]

    def _measures_every_gradient(self) -> bool:
        return self.schedule("gradient") == Schedule(1, around=self.around.after) and self.budget is None

    def schedule(self, subject: str) -> Schedule:
        """Return when the subject is due; `histogram` counts as a subject."""
        if subject == "histogram":
            return Schedule(self.histograms.every)
        cadence = self.subjects.get(subject)
        if cadence is None:
            entry = COLLECTORS[subject]
            if entry.is_optional:
                return NEVER
            early = _EARLY if entry.rarity > 1 and self.every == 1 else ()
            return Schedule(self.every * entry.rarity, windows=early, around=self.around.after)
        schedule = cadence.schedule()
        if cadence.around is None and schedule.is_ever_due and not COLLECTORS[subject].is_optional:
            return replace(schedule, around=self.around.after)
        return schedule

    def is_in_flight(self, subject: str) -> bool:
        """Return whether the flight recorder records the subject at every step.

        Quantities that must be asked for by name, or are rare by themselves, are too dear for every step, and
        histograms are; they keep their schedules.
        """
        entry = COLLECTORS[subject]
        if self.flight_recorder is None or subject == "histogram" or entry.is_optional or entry.rarity > 1:
            return False
        return subject not in self.subjects or self.subjects[subject].schedule().is_ever_due
