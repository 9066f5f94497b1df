"""The configuration a person writes, as YAML, JSON, a dict or keywords, and how it becomes values.

every: 1                      # cadence of every subject that says nothing else
subjects:                     # a number is a cadence, false is off; what is not named follows `every`
  activation: {every: 10, first: 100, windows: [[5000, 5100]]}
  optimizer: false
modules: ["*"]                # shell globs over the sites of modules
parameters: ["*.weight"]      # and of parameters
exclude: ["*.dropout"]
record: training              # training | gradients | all: which forwards count, see `Config.record`
accumulation_steps: 1         # backward passes that one optimizer step sums on purpose
expected_frozen: ["embed.*"]  # sites that are not meant to learn: the diagnosis takes them for granted
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64}
queue: {capacity: 64, when_full: block}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..storage.errors import nearest
from .collector import COLLECTORS
from .errors import ConfigError
from .schedule import NEVER, Schedule


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cadence(_Strict):
    """When one subject is due; the fields are those of `Schedule`."""

    every: int = Field(default=1, ge=0)
    first: int = Field(default=0, ge=0)
    windows: tuple[tuple[int, int], ...] = ()

    @model_validator(mode="after")
    def _windows_run_forward(self) -> Self:
        for first, last in self.windows:
            if not 0 <= first <= last:
                raise ValueError(f"window [{first}, {last}] must run from a step >= 0 to a later one; swap its ends")
        return self

    def schedule(self) -> Schedule:
        """The same as a `Schedule`."""
        return Schedule(self.every, self.first, self.windows)


def _cadence(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    if isinstance(value, bool):
        return {"every": int(value)}
    return {"every": value} if isinstance(value, int) else value


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


class Config(_Strict):
    """What to record, where and when; the module's docstring shows all of it.

    Args:
        record: `training`: forwards in training mode with gradients on; `gradients`: any with gradients on; `all`.
        expected_frozen: Globs of sites that are frozen, or left out of the optimizer, on purpose.
    """

    every: int = Field(default=1, ge=0)
    subjects: Annotated[dict[str, Annotated[Cadence, BeforeValidator(_cadence)]], BeforeValidator(_subjects)] = {}
    modules: tuple[str, ...] = ("*",)
    parameters: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    record: Literal["training", "gradients", "all"] = "training"
    accumulation_steps: int = Field(default=1, ge=1)
    expected_frozen: tuple[str, ...] = ()
    histograms: Histograms = Histograms()
    queue: Queue = Queue()

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
        return cadence.schedule() if cadence else Schedule(self.every)


def load_config(source: Config | Mapping[str, Any] | str | Path | None = None, **fields: Any) -> Config:
    """The configuration from a file, a mapping or nothing, with keywords laid over it.

    Args:
        source: A YAML or JSON file, the fields themselves, or a finished `Config`.
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


_MODELS: Mapping[str, type[BaseModel]] = {"": Config, "histograms": Histograms, "queue": Queue, "subjects": Cadence}


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
