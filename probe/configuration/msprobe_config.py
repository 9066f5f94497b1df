"""A monitor configuration of msprobe as fields of ours, with a word on every key that means nothing here.

Reference:
    MindStudio-Probe, "monitor_instruct", detailed configuration.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...storage.errors import nearest
from ...storage.metric_series import display_site
from ..errors import ConfigError

__all__ = ["is_msprobe", "translate"]

_SWITCHES: Final = {
    "xy_distribution": ("activation", "activation_grad"),
    "wg_distribution": ("gradient",),
    "mv_distribution": ("optimizer",),
    "param_distribution": ("weight",),
    "ur_distribution": ("update",),
}
_OF_PARAMETERS: Final = ("wg_distribution", "mv_distribution", "param_distribution", "ur_distribution")
#: Recorded whatever the switches say: they cost nothing, and every diagnosis needs them.
_ALWAYS: Final = ("loss", "loss_scale", "learning_rate", "step_seconds")

_NOTES: Final = {
    "ops": "every statistic of a tensor comes from one pass, so all are recorded; `statistics` has further ones",
    "ndigits": "numbers are kept as they are, never rounded",
    "eps": "zeros are counted exactly, near-zeros are in the histogram",
    "format": "runs go to the store; `mindscope export` writes other formats",
    "step_count_per_record": "a run is one file per rank, whatever its length",
    "alert": "the diagnosis always runs, by rules that know the run's own history",
    "print_struct": "`mindscope sites SCRIPT` prints the modules",
    "stack_info": "the structure of the model is always recorded",
    "dynamic_on": "schedules have a start, a stop and windows",
    "module_ranks": "every process that calls `watch` records as its own rank",
    "monitor_mbs_grad": "activations are always recorded by micro-step",
    "append_output": "a resumed training is a new run",
    "squash_name": "sites keep their whole names",
    "all_xy": "without targets all modules are recorded",
    "mg_direction": "`subjects: {update/direction: 1}` records how far updates agree with the momentum",
    "recording_l2_features": "this quantity is not recorded",
    "l2_targets": "this quantity is not recorded",
    "sa_order": "this quantity is not recorded",
}
_USED: Final = (
    "targets", "start_step", "collect_times", "step_interval", "forward_only", "backward_only", *_SWITCHES,
    "cc_distribution",
)  # fmt: skip
#: Whole numbers, each with its default and its minimum.
_NUMBERS: Final = {"start_step": (0, 0), "collect_times": (100_000_000, 1), "step_interval": (1, 1)}
#: Keys of the collectives' settings, with a note for those that have no meaning here.
_COLLECTIVES: Final = {
    "enable": "",
    "cc_pre_hook": "",
    "cc_codeline": "collectives are recorded wherever they are called; an event `collective` names the line",
    "cc_log_only": "an event `collective` names every line that calls one, beside the numbers",
    "module_ranks": "every process that calls `watch` records as its own rank",
}
#: Keys that identify msprobe's configuration; `format` and `alert` alone do not.
_TELLING: Final = frozenset(_USED) | {"ndigits", "ops", "print_struct"}
#: Keys of msprobe's dump, one of which stands beside `task`.
_DUMPS: Final = frozenset(("dump_path", "level"))
_OF_THE_DUMP: Final = (
    "this is one of its dump, and only the form of its trend monitor (`targets`, `start_step`, ...) is translated; "
    "write `every: 1` for statistics of every tensor at every step, or "
    '`dump: {sites: ["*"], when: {windows: [[0, 0]]}}` for whole tensors, here of step 0'
)


def is_msprobe(data: Mapping[str, object]) -> bool:
    """Return whether the keys are those of msprobe's monitor, or of its dump."""
    return not _TELLING.isdisjoint(data) or _is_dump(data)


def translate(data: Mapping[str, Any]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Translate to fields of `Config`, with notes on the keys that have no meaning here.

    Raises:
        ConfigError: A key is unknown, a value is of a wrong kind, or no distribution is switched on.
    """
    found = [_OF_THE_DUMP] if _is_dump(data) else _mistakes(data)
    mistakes = tuple(f"msprobe configuration: {words}" for words in found)
    if mistakes:
        raise ConfigError("; ".join(mistakes), mistakes)
    collectives = _collectives(data)
    notes_by_key = {**_NOTES, **{f"cc_distribution.{key}": note for key, note in _COLLECTIVES.items() if note}}
    values = {**data, **{f"cc_distribution.{key}": value for key, value in collectives.items()}}
    notes = tuple(
        f"{key}: {notes_by_key[key]}"
        for key in values
        if key in notes_by_key and values[key] not in (False, None, [], {})
    )
    cadence = _cadence(data)
    subjects: dict[str, object] = dict.fromkeys(_recorded(data), cadence)
    fields: dict[str, object] = {"every": 0, "subjects": {**subjects, **dict.fromkeys(_ALWAYS, 1)}}
    fields["histograms"] = {"every": 0}
    return {**fields, **_where(data)}, notes


def _is_dump(data: Mapping[str, object]) -> bool:
    return "task" in data and not _DUMPS.isdisjoint(data)


def _mistakes(data: Mapping[str, object]) -> Iterator[str]:
    known = [*_USED, *_NOTES]
    yield from (f"unknown key {key!r}{nearest(str(key), known)}" for key in data if key not in known)
    for key, (default, least) in _NUMBERS.items():
        value = data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{key} must be a whole number from {least} up, got {value!r}"
    for key in (*_SWITCHES, "forward_only", "backward_only", "all_xy"):
        if not isinstance(data.get(key), bool | None):
            yield f"{key} must be true or false, got {data[key]!r}; write it without quotes"
    if not isinstance(data.get("targets"), Mapping | None):
        yield f"targets must map names to tensors, got {type(data['targets']).__name__}"
    collectives = data.get("cc_distribution")
    if not isinstance(collectives, Mapping | bool | None):
        yield f"cc_distribution must hold keys, got {type(collectives).__name__}"
    for key, value in collectives.items() if isinstance(collectives, Mapping) else ():
        if key not in _COLLECTIVES:
            yield f"unknown key 'cc_distribution.{key}'{nearest(str(key), _COLLECTIVES)}"
        elif key in ("enable", "cc_pre_hook") and not isinstance(value, bool):
            yield f"cc_distribution.{key} must be true or false, got {value!r}; write it without quotes"


def _cadence(data: Mapping[str, Any]) -> dict[str, int]:
    start, times, every = (data.get(key, default) for key, (default, _) in _NUMBERS.items())
    return {"every": every, "start": start, "stop": start + every * (times - 1) + 1}


def _collectives(data: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings of `cc_distribution`, which may be a mere switch."""
    settings = data.get("cc_distribution") or {}
    return settings if isinstance(settings, Mapping) else {"enable": settings}


def _recorded(data: Mapping[str, object]) -> tuple[str, ...]:
    on = [subject for switch, subjects in _SWITCHES.items() if data.get(switch) for subject in subjects]
    if data.get("forward_only"):
        on = [subject for subject in on if subject != "activation_grad"]
    if data.get("backward_only"):
        on = [subject for subject in on if subject != "activation"]
    if (collectives := _collectives(data)).get("enable"):
        on += ["communication", *(["communication/before"] if collectives.get("cc_pre_hook") else [])]
    if not on:
        words = ", ".join((*_SWITCHES, "cc_distribution"))
        raise ConfigError(f"msprobe configuration: nothing is switched on; set one of {words} to true")
    return tuple(on)


def _where(data: Mapping[str, Any]) -> dict[str, object]:
    targets: Mapping[str, object] = data.get("targets") or {}
    if not targets:
        return {}
    names = [name.rpartition(":")[2] for name in targets]  # a pipeline stage may stand before the name
    modules = ("*",) if data.get("all_xy") else tuple(map(display_site, names))
    if not any(data.get(switch) for switch in _OF_PARAMETERS):  # a target may be a module without parameters
        return {"modules": modules}
    return {"modules": modules, "parameters": tuple(f"{name}.*" if name else "*" for name in names)}
