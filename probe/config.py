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
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64}
statistics: [kurtosis]        # of tensors, beside the ten: sum | abs_max | kurtosis | checksum | quantiles
routers: [{sites: ["*.gate"], top_k: 2, holds: logits, capacity_factor: 1.25}]   # whose load `router` records
queue: {capacity: 64, when_full: block}
dump: {sites: ["head"], subjects: [activation, gradient], when: {windows: [[100, 110]]}, limit_gb: 10}   # whole tensors
nan_trace: false              # name the first operation, and its line, that makes NaN or infinity
causality: false              # check once that no output of a sequence model depends on later input
budget: 3%                    # what all this may cost the training; the schedule is thinned to stay below
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..storage.errors import nearest
from .collector import COLLECTORS
from .errors import ConfigError
from .msprobe_config import is_msprobe, translate
from .schedule import NEVER, Schedule

_log = logging.getLogger(__name__)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cadence(_Strict):
    """When one subject is due; the fields are those of `Schedule`. Without any it is due at every step."""

    every: int | None = Field(default=None, ge=0)
    first: int = Field(default=0, ge=0)
    windows: tuple[tuple[int, int], ...] = ()
    per_decade: int = Field(default=0, ge=0, le=1000)
    start: int = Field(default=0, ge=0)
    stop: int | None = Field(default=None, ge=1)

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
        other = self.first or self.windows or self.per_decade
        every = self.every if self.every is not None else int(not other)
        return Schedule(every, self.first, self.windows, self.per_decade, self.start, self.stop)


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


class Histograms(_Strict):
    """Which subjects get histograms, how often and how fine."""

    every: int = Field(default=100, ge=0)
    subjects: tuple[Literal["activation", "activation_grad", "weight", "gradient"], ...] = (
        "activation",
        "weight",
        "gradient",
    )
    bins: int = Field(default=64, ge=2, le=4096)


class Queue(_Strict):
    """The queue between the training and the writer."""

    capacity: int = Field(default=64, ge=1)
    when_full: Literal["block", "drop"] = "block"


class Dump(_Strict):
    """Which whole tensors are stored beside the run, and when.

    Args:
        limit_gb: What the files of the run may take.
        memory_gb: What copies that wait for the disk may take.
        folder: Where they go; beside the run by default, which a store in a database cannot offer.
    """

    sites: tuple[str, ...] = ("*",)
    subjects: tuple[Literal["activation", "activation_grad", "weight", "gradient"], ...] = ("activation", "gradient")
    when: Annotated[Cadence, BeforeValidator(_cadence)] = Cadence(every=0, first=1)
    limit_gb: float = Field(default=10.0, gt=0.0)
    memory_gb: float = Field(default=0.25, gt=0.0)
    folder: str | None = None


class Router(_Strict):
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


class Config(_Strict):
    """What to record, where and when; the module's docstring shows all of it.

    Args:
        record: `training`: forwards in training mode with gradients on; `gradients`: any with gradients on; `all`.
        types: Globs over the class names of modules; parameters are chosen by `parameters` alone.
        depth: Modules whose dotted name has more parts are left out; 0 leaves the model itself.
        expected_frozen: Globs of sites that are frozen, or left out of the optimizer, on purpose.
        statistics: Further statistics of every tensor but those of collectives; `kernels/more.py` says what they are.
        nan_trace: Follow NaN and infinity to the operation and the line that made them first; costs a pass over every
            result.
        causality: After the first step, call the model a few times more, its first batch changed at single positions,
            and record whether outputs before them move. True says that they must not; "report" only looks.
        budget: Cost of monitoring that is allowed, as a share of the training's own time; `"3%"` is 0.03. None for
            any.
    """

    every: int = Field(default=1, ge=0)
    subjects: Annotated[dict[str, Annotated[Cadence, BeforeValidator(_cadence)]], BeforeValidator(_subjects)] = {}
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
    dump: Dump | None = None
    nan_trace: bool = False
    causality: bool | Literal["report"] = False
    budget: Annotated[Annotated[float, Field(gt=0.0, le=1.0)] | None, BeforeValidator(_share)] = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for name in self.subjects:
            if name not in COLLECTORS:
                raise ValueError(f"no subject {name!r}{nearest(name, COLLECTORS)}; there are {', '.join(COLLECTORS)}")
        if not any(self.schedule(name).is_ever_due for name in COLLECTORS):
            raise ValueError("nothing is ever due; set `every` to 1 or more, or name a subject with a cadence")
        return self

    def schedule(self, subject: str) -> Schedule:
        """When the subject is due; `histogram` is one of them."""
        if subject == "histogram":
            return Schedule(self.histograms.every) if self.histograms.subjects else NEVER
        cadence = self.subjects.get(subject)
        if cadence is None:
            return NEVER if COLLECTORS[subject].is_optional else Schedule(self.every)
        return cadence.schedule()


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
    "dump": Dump,
    "routers": Router,
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
