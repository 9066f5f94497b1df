"""A collector stores every message once and in order, whatever comes again, is missing, or is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mindscope.storage import Event, Outcome, Store, StoreUnavailable, Structure, open_store
from mindscope.storage.database.database_store import DatabaseStore
from mindscope.storage.database.recording_writer import RecordingWriter
from mindscope.storage.process import identity
from mindscope.storage.streams.collector import Collector
from mindscope.storage.streams.stream_store import StreamStore
from mindscope.storage.streams.stream_writer import StreamWriter
from mindscope.storage.url import open_collected

from tests.storage.samples import bits, finding, layout, walk
from tests.storage.streams.broker import MemoryBroker, MemorySubscription

STEPS = 90


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseStore]:
    url = str(tmp_path / "runs") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with open_collected(url) as opened:
        yield opened


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def write_training(store: Store, run: str = "training") -> None:
    """Everything that a writer can be told."""
    records = walk(STEPS, layout(12), layout(5, "weight"))
    writer = store.begin_run("digits", run_id=run, framework="torch", config={"every": 1}, tags={"lr": 0.1})
    writer.write_structure(Structure(subjects=("weight",)))
    for start in range(0, 60, 20):
        writer.write(records[start : start + 20], [finding(start)])
    writer.write_structure(Structure(subjects=("weight", "gradient")))
    writer.write(records[60:], [finding(61)], walk(2, layout(3, "gradient"), first=70))
    writer.write_events([Event("exception", STEPS, data={"type": "ValueError"})])
    writer.write_outcomes([Outcome("pgd", "linf", 0.1, 0.5, 100)])
    writer.close("failed", "ValueError: no")


def whole(store: Store, run: str = "training", rank: int = 0) -> object:
    """What a store has of a run, as what can be compared."""
    found = store.find_run(run)
    parts = (
        tuple(store.replay(run, rank=rank)),
        store.events(run, rank=rank),
        store.findings(run),
        store.outcomes(run),
        store.structure(run, rank=rank),
        store.former_structures(run, rank=rank),
        store.histograms(run, "layer.0", "weight", rank=rank),
        tuple(sorted(store.metrics(run, rank=rank))),
        (found.name, found.state, found.error, found.framework, found.last_step, found.worst, found.findings),
        (dict(found.config), dict(found.tags)),
    )
    return bits(parts)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> object:
    """What a run is that was written without a broker."""
    with open_store(tmp_path_factory.mktemp("direct")) as store:
        write_training(store)
        return whole(store)


def collect(broker: MemoryBroker, target: DatabaseStore, subscription: MemorySubscription | None = None) -> Collector:
    collector = Collector(subscription or broker.subscription(), target)
    collector.run(until_empty=True)
    return collector


def test_a_collected_run_is_the_run_that_was_recorded(
    broker: MemoryBroker, target: DatabaseStore, expected: object
) -> None:
    run = f"training-{target.url[:4]}".replace("/", "")
    write_training(StreamStore(broker), run)
    counts = collect(broker, target).counts
    assert whole(target, run) == expected
    assert (counts.records, counts.again, counts.missing) == (STEPS, 0, 0)
    assert target.verify(run) == ()


def test_messages_in_many_frames_are_joined(target: DatabaseStore, expected: object) -> None:
    broker = MemoryBroker(frame_bytes=300)
    run = f"frames-{target.url[:4]}".replace("/", "")
    write_training(StreamStore(broker), run)
    assert len(broker.log) > 30
    collect(broker, target)
    assert whole(target, run) == expected


def test_what_comes_again_is_not_stored_twice(broker: MemoryBroker, target: DatabaseStore, expected: object) -> None:
    run = f"again-{target.url[:4]}".replace("/", "")
    write_training(StreamStore(broker), run)
    count = len(broker.log)
    subscription = broker.subscription()
    subscription.acknowledges = False
    first = Collector(subscription, target)
    first.step()  # it dies before it acknowledges
    assert len(broker.log) == count
    again = collect(broker, target).counts
    assert (again.messages, again.again) == (0, count)
    assert whole(target, run) == expected


@pytest.mark.parametrize("dies_after", range(1, 8, 2))
def test_a_collector_that_dies_in_the_midst_is_followed_by_another(
    broker: MemoryBroker,
    target: DatabaseStore,
    expected: object,
    dies_after: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = f"dies-{dies_after}-{target.url[:4]}".replace("/", "")
    write_training(StreamStore(broker), run)
    performed = 0
    perform = Collector._store_group

    def dying(self: Collector, *arguments: object) -> None:
        nonlocal performed
        performed += 1
        if performed > dies_after:
            raise KeyboardInterrupt
        perform(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Collector, "_store_group", dying)
    with pytest.raises(KeyboardInterrupt):
        Collector(broker.subscription(), target).step()
    monkeypatch.undo()
    with open_collected(target.url if "://" not in target.url else target_url(target)) as other:
        counts = collect(broker, other).counts
    assert counts.again > 0
    assert whole(target, run) == expected


def target_url(target: DatabaseStore) -> str:
    return str(target._backend._engine.url.render_as_string(hide_password=False))  # type: ignore[attr-defined]


def test_a_message_that_is_missing_is_counted_and_the_rest_is_stored(
    broker: MemoryBroker, target: DatabaseStore
) -> None:
    run = f"missing-{target.url[:4]}".replace("/", "")
    writer = StreamStore(broker).begin_run("x", run_id=run)
    for start in range(0, 40, 10):
        writer.write(walk(10, layout(4), first=start))
    for key in list(broker.log)[2:4]:
        del broker.log[key]
    counts = collect(broker, target).counts
    assert (counts.records, counts.missing) == (20, 20)
    assert [record.step for record in target.replay(run)] == [*range(10), *range(30, 40)]
    (event,) = target.events(run, kind="observations_lost")
    assert (event.step, event.data["count"]) == (30, 20)
    assert target.verify(run) == ()


def test_a_run_whose_beginning_is_missing_is_stored_all_the_same(broker: MemoryBroker, target: DatabaseStore) -> None:
    run = f"headless-{target.url[:4]}".replace("/", "")
    writer = StreamStore(broker).begin_run("its name", run_id=run, rank=2)
    writer.write(walk(3, layout(4)))
    writer.write(walk(3, layout(4), first=3))
    for key in list(broker.log)[:2]:
        del broker.log[key]
    assert collect(broker, target).counts.missing == 3
    found = target.find_run(run)
    assert (found.name, found.ranks, found.state) == ("its name", (2,), "running")


def test_a_store_that_refuses_for_a_while_gets_everything(
    broker: MemoryBroker, target: DatabaseStore, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindscope.storage.streams.collector._RETRY_S", 0.02)
    monkeypatch.setattr("mindscope.storage.streams.collector._MOST_RETRY_S", 0.02)
    run = f"refused-{target.url[:4]}".replace("/", "")
    write_training(StreamStore(broker), run)
    refusals = 3
    write = RecordingWriter.write

    def refusing(self: RecordingWriter, *arguments: object) -> None:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise StoreUnavailable("full")
        write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordingWriter, "write", refusing)
    collect(broker, target)
    assert refusals < 0
    assert whole(target, run) == expected


def test_nothing_is_acknowledged_before_it_is_on_the_disk(
    broker: MemoryBroker, tmp_path: Path, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindscope.storage.streams.collector._RETRY_S", 0.02)
    write_training(StreamStore(broker))
    count = len(broker.log)
    synced: list[str] = []
    failures = 2

    def sync(path: str) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError(5, "Input/output error")
        synced.append(path)

    monkeypatch.setattr("mindscope.storage.database.folder_backend.sync_file", sync)
    with open_collected(tmp_path / "runs") as target:
        collector = Collector(broker.subscription(), target)
        collector.step()
        assert len(broker.log) == count
        collector.run(until_empty=True)
        assert synced
        assert not broker.log
        assert whole(target) == expected


def test_a_message_that_no_store_takes_is_left_out_and_counted(
    broker: MemoryBroker, target: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = f"poison-{target.url[:4]}".replace("/", "")
    writer = StreamStore(broker).begin_run("x", run_id=run)
    for start in range(0, 30, 10):
        writer.write(walk(10, layout(4), first=start))
    write = RecordingWriter.write

    def picky(self: RecordingWriter, records: list, *arguments: object) -> None:
        if any(record.step == 15 for record in records):
            raise TypeError("what is this")
        write(self, records, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordingWriter, "write", picky)
    counts = collect(broker, target).counts
    assert (counts.records, counts.missing) == (20, 10)
    assert [record.step for record in target.replay(run)] == [*range(10), *range(20, 30)]
    (event,) = target.events(run, kind="observations_lost")
    assert "what is this" in str(event.data["error"])


def test_a_damaged_message_is_counted_with_its_records(broker: MemoryBroker, target: DatabaseStore) -> None:
    run = f"damaged-{target.url[:4]}".replace("/", "")
    writer = StreamStore(broker).begin_run("x", run_id=run)
    for start in range(0, 30, 10):
        writer.write(walk(10, layout(4), first=start))
    key = list(broker.log)[2]
    broker.log[key] = broker.log[key][:-1] + bytes([broker.log[key][-1] ^ 1])
    counts = collect(broker, target).counts
    assert (counts.damaged, counts.missing, counts.records) == (1, 10, 20)
    assert not broker.log


def test_a_training_that_begins_again_goes_on_with_its_rank(broker: MemoryBroker, target: DatabaseStore) -> None:
    run = f"restarted-{target.url[:4]}".replace("/", "")
    first = StreamStore(broker).begin_run("x", run_id=run)
    first.write(walk(5, layout(4)))
    old = dict(broker.log)
    collector = Collector(broker.subscription(), target)
    collector.step()
    second = StreamStore(broker).begin_run("x", run_id=run)
    second.write(walk(5, layout(4), first=5))
    second.close()
    collector.step()
    broker.log.update(old)  # a late delivery of what is stored
    counts = collect(broker, target).counts
    assert (counts.again, counts.missing) == (2, 0)
    assert [record.step for record in target.replay(run)] == list(range(10))
    assert target.find_run(run).state == "finished"


def test_a_frozen_collector_writes_nothing_after_another_has_taken_over(
    broker: MemoryBroker, target: DatabaseStore
) -> None:
    run = f"frozen-{target.url[:4]}".replace("/", "")
    writer = StreamStore(broker).begin_run("x", run_id=run)
    writer.write(walk(5, layout(4)))
    frozen = broker.subscription()
    sleeping = Collector(frozen, target)
    sleeping.step()
    writer.write(walk(5, layout(4), first=5))
    with open_collected(target.url if "://" not in target.url else target_url(target)) as other:
        collect(broker, other)
        writer.write(walk(5, layout(4), first=10))
        sleeping.step()  # it learns that it is behind, and goes on from there
        sleeping.step()
        collect(broker, other)
    assert [record.step for record in target.replay(run)] == list(range(15))
    assert target.events(run, kind="observations_lost") == ()


def test_the_writer_of_the_run_is_the_training_and_not_the_collector(
    broker: MemoryBroker, target: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = f"process-{target.url[:4]}".replace("/", "")
    gone = identity().replace('"pid":', '"pid":4').replace('"started":"', '"started":"9')
    monkeypatch.setattr("mindscope.storage.streams.stream_writer.identity", lambda: gone)
    writer: StreamWriter = StreamStore(broker).begin_run("x", run_id=run)
    writer.write(walk(5, layout(4)))
    collect(broker, target)
    assert target.find_run(run).state == "crashed"


def test_last_words_are_passed_on_and_are_no_part_of_the_recording(
    broker: MemoryBroker, target: DatabaseStore, expected: object
) -> None:
    run = f"words-{target.url[:4]}".replace("/", "")
    store = StreamStore(broker)
    write_training(store, run)
    words = store.last_words(run, 0)
    for text in ("first", "second"):
        words.write(0, text)
    heard: list[tuple[str, int, str]] = []
    collector = Collector(broker.subscription(), target, said=lambda *word: heard.append(word))
    collector.run(until_empty=True)
    assert heard == [(run, 0, "second")]
    assert whole(target, run) == expected
    assert broker.log == {}


def test_a_listener_to_last_words_that_fails_stops_no_record(broker: MemoryBroker, target: DatabaseStore) -> None:
    def fail(run: str, rank: int, text: str) -> None:
        raise ValueError(text)

    run = f"fails-{target.url[:4]}".replace("/", "")
    store = StreamStore(broker)
    store.begin_run(run, run_id=run)
    store.last_words(run, 0).write(0, "no JSON")
    Collector(broker.subscription(), target, said=fail).run(until_empty=True)
    assert target.find_run(run).ranks == (0,)
