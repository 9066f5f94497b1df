"""Facts that may change from step to step: forward modes, accumulation, optimizer step counts, shared parameters."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final
from weakref import ref

from ...storage.records import Event, Json
from ..late_scalars import LateScalar, late_quotient
from ..recording.recorder import Recorder

_MOST_NAMES = 32
_Key = tuple[bool, bool, tuple[str, ...]]
#: Sites and modules of a part, itself first; by the flags of all the sites of those whose flag is not that of the part.
_Part = tuple[list[str], list[object], dict[tuple[bool, ...], tuple[str, ...]]]
_training = attrgetter("training")


class ForwardModes:
    """Counts the forwards of a step by their modes and tells of a step whose modes are not those of the step before.

    Args:
        modules: By site, the model itself under the empty one.
        failed: Called with what went wrong in a forward: the training must not feel it.

    Attributes:
        counts: Forwards in the step in progress, by their modes.
    """

    def __init__(self, recorder: Recorder, modules: Mapping[str, object], failed: Callable[[Exception], None]) -> None:
        self._recorder, self._failed = recorder, failed
        self.look(modules)
        self.counts: dict[_Key, int] = {}
        self._before: frozenset[_Key] = frozenset()

    def forward_begins(self, is_recording: bool, part: str = "") -> None:
        """Count a forward of the model in its modes, with gradients on or off.

        Args:
            part: The part that was called, where the model only lists its parts: each has a mode of its own.
        """
        try:
            sites, modules, known = self._parts.get(part) or self._add(part)
            flags = (*map(_training, modules),)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._failed(error)
            return
        others = known.get(flags)
        if others is None:
            others = known[flags] = tuple(
                [site for site, flag in zip(sites, flags, strict=True) if flag is not flags[0]]
            )
        key = flags[0], is_recording, others
        self.counts[key] = self.counts.get(key, 0) + 1

    def _add(self, part: str) -> "_Part":
        """Return the modules of the part, itself first."""
        sites = [part, *(site for site in self._all if site != part and (not part or site.startswith(f"{part}.")))]
        found = self._parts[part] = sites, [self._all[site] for site in sites], {}
        return found

    def step_ends(self) -> None:
        """Record `forward_modes` when this step's modes differ from the last one's."""
        counts, self.counts = self.counts, {}
        if counts.keys() == self._before:
            return
        self._before = frozenset(counts)
        forwards: list[Json] = [self._described(key, count) for key, count in counts.items()]
        self._recorder.event("forward_modes", forwards=forwards, sensitive=_some(sorted(self._sensitive)))

    def look(self, modules: Mapping[str, object]) -> None:
        """Replace the modules from now on."""
        self._all = dict(modules)
        self._parts: dict[str, _Part] = {}
        self._sensitive = frozenset(site for site, module in modules.items() if depends_on_mode(module))

    def _described(self, key: _Key, count: int) -> dict[str, Json]:
        training, gradients, others = key
        return {
            "training": training,
            "gradients": gradients,
            "count": count,
            "others": _some(others),
            "others_count": len(others),
            "sensitive_others": _some([site for site in others if site in self._sensitive]),
        }


def depends_on_mode(module: object) -> bool:
    """Return whether the module computes something else in training than in evaluation: dropout, running statistics."""
    kind = type(module).__name__.lower()
    if "dropout" in kind or "droppath" in kind:
        rate = getattr(module, "p", getattr(module, "drop_prob", 1.0))
        return not (isinstance(rate, int | float) and rate == 0.0)
    running = getattr(module, "running_mean", None)
    if running is None:
        running = getattr(module, "moving_mean", None)
    if running is not None:
        return True
    rate = getattr(module, "dropout", 0.0)  # attention and recurrent layers keep a rate of that name
    return isinstance(rate, float) and rate > 0.0


def _some(names: "list[str] | tuple[str, ...]") -> list[Json]:
    return list(names[:_MOST_NAMES])


#: Two factors that differ by less are the same: the loss is added up in the precision of the model.
_SAME: Final = 1e-3


class Accumulation:
    """Tells `accumulation` of a step whose backward passes, or whose factor, are not those of the step before.

    Passes from one place of the program after one forward each are micro-batches. Passes from several places are the
    terms of one loss, and so are passes without a forward between them: they count as one. Where a step has one pass,
    nobody asks where it came from, until one has several.

    The factor is that between the value a loss function returned and the value the backward pass started from, which is
    1 over the number of micro-batches where a mean over all of them is meant. On a device both come late: then all
    steps are compared when their records have what they are owed, in their order.

    Attributes:
        is_after_forward: Whether the model was called since the last pass.
        asks_for_places: Whether it is to be told where a pass is called.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._passes = self._losses = 0
        self._places: dict[int, int] = {}
        self.is_after_forward, self.asks_for_places = False, True
        self._value: float | LateScalar | None = None
        self._found: float | LateScalar | None = None
        self._factor: float | None = None
        self._reduction = ""
        self._told: tuple[int, float | None, str] | None = None
        self._is_late = False
        self._before: tuple[int, float | LateScalar | None, str, int] = (0, None, "", 0)

    def loss_returned(self, value: float | LateScalar | None, reduction: str) -> None:
        """Note the value of a loss, None if it was not read; with several losses the factor is unknown."""
        self._losses += 1
        self._value = value if self._losses == 1 else None
        self._reduction = reduction or self._reduction

    def backward_begins(
        self, root: float | LateScalar | None, factor: float | None = None, *, place: int | None = None
    ) -> None:
        """Note the value a backward pass starts from; `factor` where the framework's tape knows it.

        Args:
            place: Of the program, which calls it; None where that is not known.
        """
        self._passes += 1
        if place is not None:
            self._places[place] = self._places.get(place, 0) + self.is_after_forward
            self.is_after_forward = False
        value = self._value
        if factor is not None:
            found: float | LateScalar | None = factor
        elif callable(root) or callable(value):
            found = late_quotient(root, value)
        else:
            found = root / value if value and root is not None else None
        self._found = self._found if found is None else found
        self._losses, self._value = 0, None

    def step_ends(self, passes: int | None = None) -> None:
        """Record what has changed; `passes` are those whose gradients were summed, None where all were."""
        recorder, found = self._recorder, self._found
        count = self._passes if passes is None else min(passes, self._passes)
        terms, most = max(1, len(self._places)), max(self._places.values(), default=count)
        count = min(count, max(1, most))
        self.asks_for_places = self._passes > 1 or self._told is None
        if len(self._places) > 1:
            found = None  # no factor of one term is that of the loss
        self._places.clear()
        self._passes, self._found, self._is_late = 0, None, self._is_late or callable(found)
        if not self._is_late:
            now = (count, found, self._reduction, terms)
            if now == self._before:
                return
            self._before = now
            for news in self._news(count, found, self._reduction, terms):
                recorder.event("accumulation", "", **news)
            return
        current, reduction = recorder.current, self._reduction
        step, micro_step = current.step, current.micro_step
        recorder.device_results.late_events(
            lambda: [
                Event("accumulation", step, "", micro_step, one) for one in self._news(count, found, reduction, terms)
            ]
        )

    def _news(self, count: int, found: float | LateScalar | None, reduction: str, terms: int) -> list[dict[str, Json]]:
        """Return the data of the step's event, if it differs from the one before."""
        factor = found() if callable(found) else found
        if factor is not None and math.isfinite(factor) and factor:
            self._factor = factor
        now = (count, self._factor, reduction)
        if not count or (self._told is not None and _is_same(now, self._told)):
            return []
        self._told = now
        declared = self._recorder.config.accumulation_steps
        factor = self._factor if terms == 1 else None
        news: dict[str, Json] = {"micro_batches": count, "factor": factor, "reduction": reduction or None}
        return [{**news, "declared": declared, "terms": terms}]


def _is_same(now: tuple[int, float | None, str], before: tuple[int, float | None, str]) -> bool:
    if now[0] != before[0] or now[2] != before[2] or now[1] is None or before[1] is None:
        return now == before
    return abs(now[1] - before[1]) <= _SAME * abs(before[1])


class OptimizerSteps:
    """Compares the steps that an optimizer's state counts with those before.

    Args:
        optimizers: Those watched now; the list grows.
        count: The steps of one; None where it keeps no count.
        slots: Names of the state tensors that it holds.
    """

    def __init__(
        self,
        recorder: Recorder,
        optimizers: Sequence[object],
        count: Callable[[object], int | None],
        slots: Callable[[object], Sequence[str]],
    ) -> None:
        self._recorder, self._optimizers = recorder, optimizers
        self._count, self._slots = count, slots
        self._known: dict[int, int | None] = {}
        self._counted: dict[int, ref[object]] = {}

    def before_step(self) -> None:
        """Record `resumed` of optimizers that begin with state, `optimizer_state_lost` where a count went back."""
        for number, optimizer in enumerate(self._optimizers):
            if number not in self._known:
                self._begin(number, optimizer)
                continue
            before, is_another = self._known[number], self._counted[number]() is not optimizer
            self._counted[number] = ref(optimizer)
            if before is not None and (now := self._count(optimizer) or 0) < before:
                self._known[number] = now
                self._recorder.event(
                    "optimizer_state_lost", optimizer=number, count=now, count_before=before, is_another=is_another
                )

    def step_ends(self) -> None:
        """Note the counts."""
        for number in [*self._known]:
            if number < len(self._optimizers):
                self._known[number] = self._count(self._optimizers[number])
            else:  # fewer optimizers have taken the place of several
                del self._known[number], self._counted[number]

    def _begin(self, number: int, optimizer: object) -> None:
        count = self._count(optimizer) or 0
        self._known[number], self._counted[number] = count, ref(optimizer)
        kind = type(optimizer).__name__
        slots: list[Json] = list(self._slots(optimizer))
        self._recorder.event("optimizer_step_count", optimizer=number, optimizer_kind=kind, count=count)
        if count:
            self._recorder.event("resumed", optimizer=number, optimizer_kind=kind, count=count, slots=slots)


class Ties:
    """Watches that parameters which shared memory as the run began still do.

    Args:
        owners: Site, module and attribute of every parameter, shared ones under each of their sites.
        memory: Returns where a parameter's values lie.

    Attributes:
        groups: The parameters that share memory, each group by site, module and attribute.
    """

    def __init__(
        self, recorder: Recorder, owners: Sequence[tuple[str, object, str]], memory: Callable[[object], int]
    ) -> None:
        self._recorder, self._memory = recorder, memory
        groups: dict[int, list[tuple[str, object, str]]] = {}
        for site, module, name in owners:
            groups.setdefault(memory(getattr(module, name)), []).append((site, module, name))
        self.groups = [group for group in groups.values() if len(group) > 1]

    @property
    def sites(self) -> tuple[tuple[str, ...], ...]:
        """The sites of each group that shares memory."""
        return tuple(tuple(site for site, _, _ in group) for group in self.groups)

    def step_ends(self) -> bool:
        """Return whether a tie has broken since; each was recorded as `tie_broken`."""
        apart = [group for group in self.groups if not self._holds(group)]
        for group in apart:
            self.groups.remove(group)
            self._recorder.event("tie_broken", group[0][0], sites=[site for site, _, _ in group])
        return bool(apart)

    def _holds(self, group: list[tuple[str, object, str]]) -> bool:
        addresses = {self._memory(getattr(module, name)) for _, module, name in group}
        return len(addresses) == 1
