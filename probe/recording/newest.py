"""The newest record waits until the next thing happens: what is told behind a step still belongs to it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...storage.records import Event, Json, StepRecord
from ..device_results import Outbox
from .current import CurrentStep
from .draft import Draft

#: How often steps at which nothing is due are told of: as often as a person's wishes are looked for. Our choice.
QUIET_S = 0.2


class Newest:
    """What was told goes into the record that waits, or into the draft of the step in progress when none does.

    An idle step passes without a record: if anything is told behind it, one is made.

    Attributes:
        record: The one that waits.
    """

    def __init__(self, current: CurrentStep, draft: Draft, outbox: Outbox, clock: Callable[[], float]) -> None:
        self._current, self._draft, self._outbox, self._clock = current, draft, outbox, clock
        self.record: StepRecord | None = None
        self._is_untold, self._tells_at = False, 0.0

    def put(self, record: StepRecord) -> None:
        """Nothing; the record, which the outbox has sealed, waits."""
        self.record, self._is_untold = record, False

    def passes(self, now: float) -> bool:
        """Whether the idle step that is over needs no record.

        Args:
            now: In seconds, of a clock that only goes forward.
        """
        draft = self._draft
        if draft.scalars or draft.events or now >= self._tells_at or not self._current.is_idle:
            self._tells_at = now + QUIET_S
            return False
        self._is_untold = True
        return True

    def log(self, scalars: Mapping[str, float]) -> None:
        """Nothing; the scalars are of the step in progress, or of the one that has just ended when none is."""
        self._tell_of_the_last_step()
        if self.record is None:
            self._draft.scalars.update(scalars)
        else:
            self.record = replace(self.record, scalars={**self.record.scalars, **scalars})

    def event(self, kind: str, site: str = "", **data: Json) -> None:
        """Nothing; it is what happened in the step in progress, or in the one that has just ended."""
        self._tell_of_the_last_step()
        if self.record is None:
            self._draft.events.append(Event(kind, self._current.step, site, self._current.micro_step, data))
        else:
            event = Event(kind, self.record.step, site, self.record.micro_step, data)
            self.record = replace(self.record, events=(*self.record.events, event))

    def flush(self, *, wait: bool = False) -> None:
        """Nothing; the waiting record has left, and those that a device owed numbers; the device may be waited for."""
        if wait:
            self._tell_of_the_last_step()
        if self.record is not None:
            record, self.record = self.record, None
            self._outbox.send(record)
        if self._outbox.waiting:
            self._outbox.drain(wait=wait)

    def held(self) -> StepRecord | None:
        """What is known of the newest step, if no record of it has left; any thread may ask."""
        record = self.record
        if record is None:
            is_untold = self._is_untold and not self._current.is_open
            return StepRecord(self._current.step - 1, self._clock()) if is_untold else None
        known = self._outbox.known(record)
        return known if self.record is record else None

    def _tell_of_the_last_step(self) -> None:
        """Makes a record, which waits, of an idle step that has just passed without one."""
        if self._is_untold and self.record is None and not self._current.is_open:
            self._is_untold = False
            record = StepRecord(self._current.step - 1, self._clock(), 0, False, (), {}, (), ())
            self.record = self._outbox.seal(record, None)
