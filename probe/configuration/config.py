"""The configuration a person writes, as YAML, JSON, a dict or keywords, and how it becomes values.

every: 1                      # cadence of every subject that says nothing else
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
expected_frozen: ["embed.*"]  # sites that are not meant to learn: the diagnosis takes them for granted
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64, scale: linear}   # log: an octave a bin
statistics: [kurtosis]        # of tensors, beside the ten: sum | abs_max | kurtosis | checksum | quantiles
routers: [{sites: ["*.gate"], top_k: 2, holds: logits, capacity_factor: 1.25}]   # whose load `router` records
queue: {capacity: 64, when_full: block}
flight_recorder: {steps: 20, tensors: ["head"], memory: 512MB, severity: warning}   # kept, and stored if it must be
around: {after: 50, severity: warning}   # everything at each of so many steps behind a finding; a subject may differ
dump: {sites: ["head"], subjects: [activation, gradient], when: {windows: [[100, 110]]}, limit_gb: 10}   # whole tensors
nan_trace: false              # name the first operation, and its line, that makes NaN or infinity
causality: false              # check once that no output of a sequence model depends on later input
watchpoints:                  # conditions of your own; `storage/conditions.py` has the grammar
  - gradient/l2_norm @ decoder.* > 10 for 3 steps
  - {when: "nan @ *", name: any NaN, severity: error, pause: true}
on_finding: stop              # or checkpoint, skip_step, callback, pause; `actions/settings.py` shows how
webhook: {url: "https://example.org/hook", severity: error, timeout_s: 5}   # is told of findings in small JSON bodies
budget: 3%                    # what all this may cost the training; the schedule is thinned to stay below
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ...storage.conditions import parse_condition
from ...storage.errors import nearest
from ..collectors.collector import COLLECTORS
from ..errors import ConfigError
from ..kernels import Bins
from .flight import Around, FlightRecorder
from .msprobe import is_msprobe, translate
from .reactions import Address, Reaction, Watch, as_reactions, as_watch
from .schedule import NEVER, Schedule
from .strict import Strict

_log = logging.getLogger(__name__)
#: What is rare is looked at more often at the start, where most that is wrong already is: four looks more in a run.
_EARLY = ((1, 2), (4, 4), (7, 7))
#: Bins of both signs; more octaves than these float64 does not have above its smallest numbers.
_OCTAVES = 1024


class Cadence(Strict):
    """When one subject is due; the fields are those of `Schedule`. Without any it is due at every step.

    Args:
        around: Steps behind an anomaly; None is what the configuration says of all subjects.
    """

    every: int | None = Field(default=None, ge=0)
    first: int = Field(default=0, ge=0)
    windows: tuple[tuple[int, int], ...] = ()
    per_decade: int = Field(default=0, ge=0, le=1000)
    start: int = Field(default=0, ge=0)
    stop: int | None = Field(default=None, ge=1)
    around: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _runs_forward(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            raise ValueError(f"stop {self.stop} must be a later step than start {self.start}")
        for first, last in self.windows:
            if not 0 <= first <= last:
                raise ValueError(f"window [{first}, {last}] must run from a step >= 0 to a later one; swap its ends")
        return self

    def schedule(self) -> Schedule:
        """The same as a `Schedule`."""
        other = self.first or self.windows or self.per_decade or self.around
        every = self.every if self.every is not None else int(not other)
        return Schedule(every, self.first, self.windows, self.per_decade, self.start, self.stop, self.around or 0)


def _cadence(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    if isinstance(value, bool):
        return {"every": int(value)}
    return {"every": value} if isinstance(value, int) else value


def _share(value: Any) -> Any:  # Any: as above
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100.0
        except ValueError:
            return value
    return value


def _subjects(value: Any) -> Any:  # Any: as above
    if isinstance(value, list | tuple):
        return {name: name in value for name in {*value, *COLLECTORS}}
    return value


class Histograms(Strict):
    """Which subjects get histograms, how often and how fine.

    Args:
        scale: `linear`: equal bins from minimum to maximum. `log`: bins that halve towards zero, half of them for each
            sign; so small values are told apart, and edges are the same from step to step but for whole octaves.
    """

    every: int = Field(default=100, ge=0)
    subjects: tuple[Literal["activation", "activation_grad", "weight", "gradient"], ...] = (
        "activation",
        "weight",
        "gradient",
    )
    bins: int = Field(default=64, ge=2, le=4096)
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _has_bins_for_both_signs(self) -> Self:
        if self.scale == "log" and (self.bins % 2 or self.bins > _OCTAVES):
            raise ValueError(
                f"bins {self.bins} must be even and at most {_OCTAVES} with `scale: log`, half for each sign"
            )
        return self

    def of(self) -> Bins:
        """The same for the kernels."""
        return Bins(self.bins, self.scale == "log")


class Queue(Strict):
    """The queue between the training and the writer."""

    capacity: int = Field(default=64, ge=1)
    when_full: Literal["block", "drop"] = "block"


class Dump(Strict):
    """Which whole tensors are stored beside the run, and when.

    Args:
        limit_gb: What the files of the run may take.
        memory_gb: What copies that wait for the disk may take.
        folder: Where they go; beside the run by default, which a store in a database cannot offer.
    """

    sites: tuple[str, ...] = ("*",)
    subjects: tuple[Literal["input", "activation", "activation_grad", "weight", "gradient"], ...] = (
        "activation",
        "gradient",
    )
    when: Annotated[Cadence, BeforeValidator(_cadence)] = Cadence(every=0, first=1)
    limit_gb: float = Field(default=10.0, gt=0.0)
    memory_gb: float = Field(default=0.25, gt=0.0)
    folder: str | None = None


class Router(Strict):
    """Modules that send tokens to experts; those with a child `router` and a number `top_k` need no word.

    Args:
        top_k: How many experts a token goes to.
        holds: What the tensor is: logits or probabilities of all experts, or the numbers of the chosen ones.
        output: Which of several outputs it is: a place in a tuple, or a name in a mapping or an object.
        attribute: The module's attribute that holds it after the forward, instead of an output.
        experts: How many there are, where the tensor does not tell.
        capacity_factor: Of experts that drop tokens beyond `factor * assignments / experts`; None for none.
    """

    sites: tuple[str, ...]
    top_k: int = Field(default=1, ge=1)
    holds: Literal["logits", "probabilities", "experts"] = "logits"
    output: int | str = 0
    attribute: str | None = None
    experts: int | None = Field(default=None, ge=1)
    capacity_factor: float | None = Field(default=None, gt=0.0)


class Config(Strict):
    """What to record, where and when; the module's docstring shows all of it.

    Args:
        record: `training`: forwards in training mode with gradients on; `gradients`: any with gradients on; `all`.
        types: Globs over the class names of modules; parameters are chosen by `parameters` alone.
        depth: Modules whose dotted name has more parts are left out; 0 leaves the model itself.
        expected_frozen: Globs of sites that are frozen, or left out of the optimizer, on purpose.
        statistics: Further statistics of every tensor but those of collectives; `kernels/more.py` says what they are.
        flight_recorder: The last steps in full, in memory; costs what recording them would, but for the writing.
        nan_trace: Follow NaN and infinity to the operation and the line that made them first; costs a pass over every
            result.
        causality: After the first step, call the model a few times more, its first batch changed at single positions,
            and record whether outputs before them move. True says that they must not; "report" only looks.
        watchpoints: Conditions that are checked at every record and reported like findings.
        on_finding: What the training does about findings; whatever it is, they are judged in step with the training,
            which then waits for the rules.
        webhook: Who is told of findings; the address itself is not recorded.
        budget: Cost of monitoring that is allowed, as a share of the training's own time; `"3%"` is 0.03. None for
            any.
    """

    every: int = Field(default=1, ge=0)
    subjects: Annotated[dict[str, Annotated[Cadence, BeforeValidator(_cadence)]], BeforeValidator(_subjects)] = Field(
        default_factory=dict
    )
    modules: tuple[str, ...] = ("*",)
    parameters: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ("*",)
    depth: int | None = Field(default=None, ge=0)
    record: Literal["training", "gradients", "all"] = "training"
    accumulation_steps: int = Field(default=1, ge=1)
    expected_frozen: tuple[str, ...] = ()
    histograms: Histograms = Histograms()
    statistics: tuple[Literal["sum", "abs_max", "kurtosis", "checksum", "quantiles"], ...] = ()
    routers: tuple[Router, ...] = ()
    queue: Queue = Queue()
    flight_recorder: FlightRecorder | None = None
    around: Around = Around()
    dump: Dump | None = None
    nan_trace: bool = False
    causality: bool | Literal["report"] = False
    watchpoints: tuple[Annotated[Watch, BeforeValidator(as_watch)], ...] = ()
    on_finding: Annotated[tuple[Reaction, ...], BeforeValidator(as_reactions)] = ()
    webhook: Address | None = None
    budget: Annotated[Annotated[float, Field(gt=0.0, le=1.0)] | None, BeforeValidator(_share)] = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for name in self.subjects:
            if name not in COLLECTORS:
                raise ValueError(f"no subject {name!r}{nearest(name, COLLECTORS)}; there are {', '.join(COLLECTORS)}")
        for watch in self.watchpoints:
            parse_condition(watch.when)
        if any(one.do == "skip_step" for one in self.on_finding) and not self._measures_every_gradient():
            raise ValueError("on_finding: skip_step needs `gradient` at every step, and no budget that may thin it")
        if not any(self.schedule(name).is_ever_due or self.is_in_flight(name) for name in COLLECTORS):
            raise ValueError("nothing is ever due; set `every` to 1 or more, or name a subject with a cadence")
        return self

    def _measures_every_gradient(self) -> bool:
        return self.schedule("gradient") == Schedule(1, around=self.around.after) and self.budget is None

    def schedule(self, subject: str) -> Schedule:
        """When the subject is due; `histogram` is one of them."""
        if subject == "histogram":
            return Schedule(self.histograms.every) if self.histograms.subjects else NEVER
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
        """Whether the flight recorder takes the subject at every step: not what is off, and not what must be named.

        Quantities that must be asked for by name, or are rare by themselves, are too dear for every step, and
        histograms are; they keep their schedules.
        """
        entry = COLLECTORS[subject]
        if self.flight_recorder is None or subject == "histogram" or entry.is_optional or entry.rarity > 1:
            return False
        return subject not in self.subjects or self.subjects[subject].schedule().is_ever_due


def load_config(source: Config | Mapping[str, Any] | str | Path | None = None, **fields: Any) -> Config:
    """The configuration from a file, a mapping or nothing, with keywords laid over it.

    Args:
        source: A YAML or JSON file, the fields themselves, or a finished `Config`; a monitor configuration of msprobe
            is translated, with a warning for each key that means nothing here.
        fields: Fields of `Config` that replace those of the source.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, a value is wrong, or two settings contradict.
    """
    if not isinstance(source, Config | Mapping | str | Path | None):
        raise ConfigError(
            "configuration must be a YAML or JSON file, a mapping or a Config, "
            f"got {type(source).__name__} {source!r}; leave it out to record everything"
        )
    if isinstance(source, Config) and not fields:
        return source
    if isinstance(source, Config):
        source = source.model_dump(exclude_unset=True)
    where = f"configuration {source}" if isinstance(source, str | Path) else "configuration"
    data = _read(Path(source)) if isinstance(source, str | Path) else dict(source or {})
    if is_msprobe(data):
        data, notes = translate(data)
        for note in notes:
            _log.warning("%s is one of msprobe; %s", where, note)
    try:
        return Config.model_validate({**data, **fields})
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "; ".join(_explain(dict(one)) for one in error.errors())) from None


def _read(path: Path) -> dict[str, Any]:  # Any: whatever the text held; pydantic checks it next
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be read: {error.strerror}; check the path") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"configuration {path} is not valid {path.suffix.lstrip('.') or 'YAML'}: {error}") from error
    if not isinstance(data, dict | None):
        raise ConfigError(f"configuration {path} must hold keys and values, got {type(data).__name__}")
    return data or {}


_MODELS: Mapping[str, type[BaseModel]] = {
    "": Config,
    "histograms": Histograms,
    "queue": Queue,
    "subjects": Cadence,
    "flight_recorder": FlightRecorder,
    "around": Around,
    "dump": Dump,
    "routers": Router,
    "watchpoints": Watch,
    "on_finding": Reaction,
    "webhook": Address,
}


def _explain(error: Mapping[str, Any]) -> str:  # Any: pydantic's own error dict
    place = [str(part) for part in error["loc"]]
    key = ".".join(place)
    if error["type"] == "extra_forbidden":
        model = _MODELS[place[0] if len(place) > 1 else ""]
        return f"unknown key {key!r}{nearest(place[-1], model.model_fields)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{key or 'settings'}: {message[:1].lower()}{message[1:]}" + (
        f", got {error['input']!r}" if key and error["type"] != "value_error" else ""
    )
