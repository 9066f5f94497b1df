"""A log of outcomes during an evaluation; a store that fails costs records, never the evaluation."""

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from ...storage import Json, Outcome, RunWriter, Store, StoreError

_log = logging.getLogger(__name__)


class OutcomeLog:
    """A writer to one run of kind `evaluation`, or to none where there is no store.

    Args:
        parent: Reference to the training run; resolved before the run begins.

    Raises:
        RunNotFound: No run answers to `parent`.
    """

    def __init__(
        self, store: Store | None, name: str, framework: str, parent: str | None, config: Mapping[str, Json]
    ) -> None:
        self._writer: RunWriter | None = None
        self.run = ""
        if store is not None:
            parent_id = None if parent is None else store.find_run(parent).id
            self._writer = store.begin_run(
                name, kind="evaluation", framework=framework, parent=parent_id, config=config
            )
            self.run = self._writer.run.id

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Add the outcomes; those of the same attack, norm and epsilon are replaced."""
        if self._writer is None:
            return
        try:
            self._writer.write_outcomes(outcomes)
        except (StoreError, OSError) as error:
            _log.error("outcomes are no longer stored, the evaluation continues: %s", error)
            self._writer = None

    def interrupted(self) -> None:
        """End the run as one that a person stopped."""
        self._end(KeyboardInterrupt("interrupted by the user"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            if error is None:
                writer.close("finished")
            else:
                writer.close("failed", f"{type(error).__name__}: {error}")
        except (StoreError, OSError) as fault:
            _log.error("the end of the evaluation is not stored: %s", fault)
