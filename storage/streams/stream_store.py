"""The store of a training whose host reaches no shared disk and no database, only a message broker: it is not read."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar

from ..control_channel import MemoryChannel
from ..errors import StoreUnavailable
from ..metric_series import Matrix, Series, Severity
from ..process import machine
from ..records import Event, Finding, Histogram, Json, Layout, Outcome, StepRecord
from ..run_info import FormerStructure, Run, RunKind, Structure, begun_run
from .stream_words import StreamWords
from .stream_writer import StreamWriter
from .transport import Closing, Transport

_Made = TypeVar("_Made")


class StreamStore(Closing):
    """The writing side of a store; whoever reads asks the store that `mindscope collect` fills.

    `find_run` knows the runs that this process has begun.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._begun: dict[str, StreamWriter] = {}
        self.url = transport.url
        _apart(transport.check)

    @property
    def damage(self) -> tuple[str, ...]:
        """Always empty: nothing is read."""
        return ()

    def begin_run(
        self,
        name: str,
        *,
        kind: RunKind = "training",
        framework: str = "",
        rank: int = 0,
        run_id: str | None = None,
        parent: str | None = None,
        config: Mapping[str, Json] | None = None,
        tags: Mapping[str, Json] | None = None,
        host: Mapping[str, Json] | None = None,
    ) -> StreamWriter:
        """Start a run, or join the run `run_id` as another rank of it."""
        run = begun_run(
            name,
            kind=kind,
            framework=framework,
            rank=rank,
            run_id=run_id,
            parent=parent,
            config=config,
            tags=tags,
            host=machine() | dict(host or {}),
        )
        writer = _apart(lambda: self._writer(run, rank))
        self._begun[run.id] = writer
        return writer

    def _writer(self, run: Run, rank: int) -> StreamWriter:
        publisher = self._transport.publisher(f"{run.id}.rank{rank}")
        try:
            return StreamWriter(run, rank, publisher)
        except BaseException:
            publisher.close()
            raise

    def last_words(self, run: str, rank: int) -> StreamWords:
        """Return what publishes the last words of a rank of a run that this process has begun."""
        begun = self.find_run(run)
        return StreamWords(begun, rank, _apart(lambda: self._transport.publisher(f"{run}.rank{rank}")))

    def runs(self, *, limit: int = 1000) -> tuple[Run, ...]:
        """Refuse, as every method that reads."""
        self._refuse()

    def find_run(self, reference: str) -> Run:
        """Return a run that this process has begun, by its id; refuse any other."""
        if reference not in self._begun:
            self._refuse()
        return self._begun[reference].run

    def version(self, run: str) -> str:
        """Refuse."""
        self._refuse()

    def structure(self, run: str, *, rank: int | None = None) -> Structure:
        """Refuse."""
        self._refuse()

    def former_structures(self, run: str, *, rank: int | None = None) -> tuple[FormerStructure, ...]:
        """Refuse."""
        self._refuse()

    def layouts(self, run: str, *, rank: int | None = None) -> tuple[Layout, ...]:
        """Refuse."""
        self._refuse()

    def metrics(self, run: str, *, rank: int | None = None) -> tuple[str, ...]:
        """Refuse."""
        self._refuse()

    def series(
        self,
        run: str,
        site: str,
        metric: str,
        *,
        rank: int | None = None,
        call: int = 0,
        first: int | None = None,
        last: int | None = None,
        limit: int = 2000,
    ) -> Series:
        """Refuse."""
        self._refuse()

    def matrix(
        self,
        run: str,
        metric: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int = 500,
    ) -> Matrix:
        """Refuse."""
        self._refuse()

    def replay(
        self,
        run: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
    ) -> Iterator[StepRecord]:
        """Refuse."""
        self._refuse()

    def histograms(
        self,
        run: str,
        site: str,
        subject: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int = 200,
    ) -> tuple[tuple[int, Histogram], ...]:
        """Refuse."""
        self._refuse()

    def events(
        self, run: str, *, rank: int | None = None, kind: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Refuse."""
        self._refuse()

    def attachment(self, run: str, digest: str, *, rank: int | None = None) -> bytes:
        """Refuse."""
        self._refuse()

    def findings(self, run: str, *, minimum: Severity = "info", limit: int = 1000) -> tuple[Finding, ...]:
        """Refuse."""
        self._refuse()

    def outcomes(self, run: str, *, limit: int = 1000) -> tuple[Outcome, ...]:
        """Refuse."""
        self._refuse()

    def write_findings(self, run: str, findings: Sequence[Finding]) -> None:
        """Refuse."""
        self._refuse()

    def annotate(
        self, run: str, *, name: str | None = None, tags: Mapping[str, Json] | None = None, remark: str | None = None
    ) -> Run:
        """Refuse."""
        self._refuse()

    def mute(self, run: str, rule: str, site: str, *, muted: bool = True) -> None:
        """Refuse."""
        self._refuse()

    def muted(self, run: str) -> tuple[tuple[str, str], ...]:
        """Refuse."""
        self._refuse()

    def control_channel(self, run: str) -> MemoryChannel:
        """Return a channel of this process alone: requests of people do not travel back through a stream."""
        return MemoryChannel()

    def verify(self, run: str) -> tuple[str, ...]:
        """Refuse."""
        self._refuse()

    def delete_run(self, run: str) -> None:
        """Refuse."""
        self._refuse()

    def close(self) -> None:
        """Do nothing: each writer has a connection of its own."""

    def _refuse(self) -> NoReturn:
        raise StoreUnavailable(not_readable(self.url))


def not_readable(url: str) -> str:
    """Return what to do instead of reading a stream."""
    return (
        f"{url} only carries records: `mindscope collect --from {url} --store runs/` drains it into a store, where "
        f"they are read"
    )


def _apart(make: Callable[[], _Made]) -> _Made:
    """Return what the function returns in a thread of its own: the caller's may run an event loop already."""
    made: list[_Made] = []
    failed: list[BaseException] = []

    def call() -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001  it is raised in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=call, name="mindscope-stream")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]
