"""All facts of one monitor: what they are asked, and when."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import ParamSpec, Protocol

from ...storage.records import Event, Json
from ..recording.recorder import Recorder
from ..resume import resume_differences
from .causality import ModelCaller, NotASequence, causality_of
from .environment import random_state_checksums
from .loss_facts import LossCall, LossFacts
from .schedules import Schedules
from .step_facts import Accumulation, ForwardModes, OptimizerSteps, Ties

_Arguments = ParamSpec("_Arguments")
_MOST_SITES = 4096


class Source(Protocol):
    """What a framework's adapter tells of its model and optimizers."""

    @property
    def optimizers(self) -> Sequence[object]:
        """Those watched; the list grows."""

    def modules(self) -> Mapping[str, object]:
        """Return the modules by site, the model itself under the empty one."""

    def owners(self) -> Sequence[tuple[str, object, str]]:
        """Return site, module and attribute of every parameter, shared ones under each of their sites."""

    def memory(self, parameter: object) -> int:
        """Return the address of the parameter's values."""

    def contents(self) -> Iterator[tuple[str, bytes | memoryview]]:
        """Yield site and content of every parameter, shared ones once."""

    def step_count(self, optimizer: object) -> int | None:
        """Return the steps that the optimizer's state counts, None where it keeps no count."""

    def learning_rates(self) -> Sequence[float]:
        """Return the rate of every group of every optimizer."""

    def slots(self, optimizer: object) -> Sequence[str]:
        """Return the names of the optimizer's state tensors."""

    def frame(self) -> ModelCaller:
        """Return a caller of the model that leaves no trace."""


class Facts:
    """Facts of one monitor. None of its methods raises; what fails is switched off and reported once.

    An adapter that hears of a loss or a backward pass asks `is_listening` and hands it to the part that wants it.

    Args:
        counts: Returns whether a forward that begins now is one of the training.
        changed: Called when the structure has something new to say.

    Attributes:
        is_listening: Whether facts are recorded now: nothing has failed, and no check of ours calls the model.
        modes: Counts forwards by their modes.
        losses: Reads the inputs and labels of losses.
        accumulation: Follows the values of losses and of backward passes.
    """

    def __init__(
        self, recorder: Recorder, source: Source, *, counts: Callable[[], bool], changed: Callable[[], None]
    ) -> None:
        self._recorder, self._source = recorder, source
        self._counts, self._changed = counts, changed
        self.modes = ForwardModes(recorder, source.modules(), self._fail)
        self.losses = LossFacts()
        self.accumulation = Accumulation(recorder)
        self.is_listening = True
        self._steps = OptimizerSteps(recorder, source.optimizers, source.step_count, source.slots)
        self._schedules = Schedules(lambda: source.optimizers)
        self._ties: Ties | None = None
        self._sample: tuple[tuple[object, ...], Mapping[str, object]] | None = None
        self._is_off = False
        self._waits_for_sample = bool(recorder.config.causality)
        self._generators: dict[str, Json] = {}
        recorder.note_resume_point = self.note_resume_point
        recorder.last_looks.append(self.note_schedules)
        self._guard(self._tell_random_state)

    def modules_changed(self) -> None:
        """Look at the model's modules again, which have changed."""
        self.modes.look(self._source.modules())

    def sample(self, _module: object, inputs: object, keywords: Mapping[str, object] | None = None) -> None:
        """Keep the arguments of the model's first training forward until the step ends (a forward pre-hook)."""
        if self._waits_for_sample and (self.is_listening or self._is_off) and self._counts():
            self._waits_for_sample = False
            self._sample = (inputs if isinstance(inputs, tuple) else (inputs,), dict(keywords or {}))

    def loss_called(self, call: LossCall) -> None:
        """Record the facts of a training loss."""
        self._recorder.flush()
        self._guard(self._tell_loss, call)

    def loss_called_away(self, call: LossCall) -> None:
        """Record a loss whose numbers are still on their way from a device, for the step in progress."""
        recorder, found = self._recorder, list[tuple[Mapping[str, float], dict[str, Json]]]()
        recorder.flush()
        step, micro_step = recorder.current.step, recorder.current.micro_step
        recorder.device_results.do("facts", lambda: found.append(self.losses.look(call)))
        recorder.device_results.late_scalars(lambda: found[0][0] if found else {})
        recorder.device_results.late_events(
            lambda: [Event("loss_input", step, "", micro_step, news) for _, news in found if news]
        )

    def _tell_loss(self, call: LossCall) -> None:
        scalars, news = self.losses.look(call)
        if scalars:
            self._recorder.log(scalars)
        if news:
            self._recorder.event("loss_input", "", **news)

    def before_step(self) -> None:
        """Note that an optimizer is about to step."""
        if self._is_off:
            return
        try:
            if self._ties is None:
                self._tell_start()
            self._steps.before_step()
            self._schedules.before_step()
        except Exception as error:  # noqa: BLE001  as in `_guard`
            self._fail(error)

    def step_ends(self, passes: int | None = None) -> None:
        """Record what differs from the step before; the step is over, its record not yet made.

        Args:
            passes: Backward passes that were summed; None where none can tell.
        """
        if self._is_off:
            return
        try:
            if self.modes.counts:
                self.modes.step_ends()
            self.accumulation.step_ends(passes)
            self._steps.step_ends()
            if self._ties is not None and self._ties.groups and self._ties.step_ends():
                self._changed()
        except Exception as error:  # noqa: BLE001  as in `_guard`
            self._fail(error)
        if self._sample is not None:
            sample, self._sample = self._sample, None
            self._guard(self._check_causality, *sample)

    def _guard(
        self, work: Callable[_Arguments, None], *arguments: _Arguments.args, **options: _Arguments.kwargs
    ) -> None:
        try:
            work(*arguments, **options)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._is_off, self.is_listening = True, False
        self._recorder.fail("facts", error)

    def _tell_random_state(self) -> None:
        self._generators = random_state_checksums()
        self._recorder.event("random_state", generators=self._generators)

    def _tell_start(self) -> None:
        """Record where the run starts: checksums of the weights, and which of them share memory."""
        self._ties = Ties(self._recorder, self._source.owners(), self._source.memory)
        for sites in self._ties.sites:
            self._recorder.event("shared_parameter", sites[0], sites=list(sites))
        checksum, each = self._checksums()
        if each:
            self._recorder.event("initial_checksum", checksum=checksum, parameters=each)
        if each and self._recorder.resume_points:
            here = self._state(checksum, each, self._generators)
            if (seam := resume_differences(self._recorder.resume_points, here)) is not None:
                self._recorder.event("resume_seam", "", **seam)

    def note_resume_point(self, reason: str) -> None:
        """Record where the training stands now, for a run that resumes from here."""
        if not self._is_off:
            self._guard(self._tell_resume_point, reason)

    def note_schedules(self, error: BaseException | None) -> None:
        """Record how far the schedules have come, if the training does not end with this error."""
        if error is None and not self._is_off:
            self._guard(self._tell_schedules)

    def _tell_resume_point(self, reason: str) -> None:
        checksum, each = self._checksums()
        state = self._state(checksum, each, random_state_checksums())
        self._recorder.event("resume_point", "", reason=reason, **state)

    def _tell_schedules(self) -> None:
        for schedule in self._schedules.take():
            self._recorder.event("schedule", "", **schedule)

    def _state(self, checksum: str, each: dict[str, Json], generators: dict[str, Json]) -> dict[str, Json]:
        counts: list[Json] = [self._source.step_count(optimizer) or 0 for optimizer in self._source.optimizers]
        rates: list[Json] = list(self._source.learning_rates())
        return {
            "checksum": checksum,
            "parameters": each,
            "learning_rates": rates,
            "counts": counts,
            "generators": generators,
        }

    def _checksums(self) -> tuple[str, dict[str, Json]]:
        """Return the checksum of all parameters together, and of each."""
        whole = blake2b(digest_size=8)
        each: dict[str, Json] = {}
        for site, content in self._source.contents():
            digest = blake2b(content, digest_size=8).digest()
            whole.update(digest)
            if len(each) < _MOST_SITES:
                each[site] = digest.hex()
        return whole.hexdigest(), each

    def _check_causality(self, inputs: tuple[object, ...], keywords: Mapping[str, object]) -> None:
        self.is_listening = False
        try:
            found = causality_of(self._source.frame(), inputs, keywords)
        except NotASequence as error:
            self._recorder.event("causality", is_causal=None, reason=str(error))
            return
        finally:
            self.is_listening = not self._is_off
        self._recorder.event(
            "causality",
            is_causal=found.is_causal,
            is_declared=self._recorder.config.causality is True,
            changed=found.changed,
            first_output=found.first_output,
            difference=found.difference,
            noise=found.noise,
            positions=found.positions,
        )
