"""`mindscope collect` drains what trainings publish to a message broker into a store."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import WrongUse
from .output import print_json, remark
from .store_options import DEFAULT_STORE, JsonOption, StoreOption

if TYPE_CHECKING:
    from ..storage.streams.collector import Counts

#: Files that a recording of a folder has open, and those that the command needs besides.
_FILES, _OTHER_FILES = 6, 100
#: The most recordings whose files stay open, and that are in hand at once of a database, which has one connection.
_MOST_OPEN, _MOST_OPEN_OF_A_DATABASE = 512, 4096


def collect(
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help="What trainings have as their store: nats://host:4222/project.")
    ],
    store: StoreOption = DEFAULT_STORE,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when nothing waits at the broker, instead of at Ctrl-C.")
    ] = False,
    as_document: JsonOption = False,
) -> int:
    """Drain the records of trainings from a message broker into a store, until Ctrl-C.

    Several collectors share the work, and each may be killed at any moment.
    """
    from ..insight.hangs.collected_words import CollectedWords
    from ..storage import StoreUnavailable
    from ..storage.streams.collector import Collector
    from ..storage.streams.stream_url import is_stream, open_transport
    from ..storage.url import open_collected

    if is_stream(store):
        raise WrongUse("--store must be a folder or a database, and --from the stream")
    with open_collected(store) as target, _stopping() as is_stopped:
        transport = open_transport(source)
        try:
            transport.check()
        except StoreUnavailable as error:
            if until_empty:
                raise
            remark(f"mindscope: {error}; trying again until it answers")
        remark(f"mindscope: collecting {transport.url} into {target.url}")
        most_open = _MOST_OPEN_OF_A_DATABASE if "://" in target.url else _most_open()
        words = CollectedWords(target)
        collector = Collector(transport.subscription(), target, most_open=most_open, said=words.take)
        collector.run(until_empty=until_empty, should_stop=is_stopped)
    if as_document:
        print_json({"from": transport.url, "store": target.url, **asdict(collector.counts)})
    else:
        print(_words(collector.counts))
    return 0


class _Stopped:
    def __init__(self) -> None:
        self.is_set = False

    def __call__(self) -> bool:
        return self.is_set


@contextmanager
def _stopping() -> Iterator[_Stopped]:
    """Let the first Ctrl-C or SIGTERM end the work after what is in hand; a second one ends it at once."""
    stopped = _Stopped()

    def stop(number: int, _frame: object) -> None:
        stopped.is_set = True
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _most_open() -> int:
    """Return how many recordings may be open at once, after asking the system for as many files as it allows."""
    if sys.platform == "win32":
        return 64
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES * _MOST_OPEN + _OTHER_FILES
    allowed = most if hard == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard))
    return max((allowed - _OTHER_FILES) // _FILES, 8)


def _words(counts: "Counts") -> str:
    words = f"{counts.messages} messages with {counts.records} records stored"
    again = f", {counts.again} came again" if counts.again else ""
    missing = f", {counts.missing} records are missing" if counts.missing else ""
    damaged = f", {counts.damaged} messages were damaged" if counts.damaged else ""
    return f"{words}{again}{missing}{damaged}"
