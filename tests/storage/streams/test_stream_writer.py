"""A sender that is refused, or not answered, publishes every message once, in order and without gaps."""

import multiprocessing
import os

import pytest
from mindscope.storage import Event, QueueWriter, Run, StepRecord, StoreError, StoreUnavailable, Structure
from mindscope.storage.streams.messages import Message, Written, decode_message, join_frames, read_frame
from mindscope.storage.streams.stream_store import StreamStore
from mindscope.storage.streams.stream_writer import StreamWriter

from tests.storage.samples import finding, layout, walk
from tests.storage.streams.broker import MemoryBroker


def begin(broker: MemoryBroker) -> StreamWriter:
    return StreamWriter(Run("run", "name", "running", 0.0, 0.0), 0, broker)


def published(broker: MemoryBroker) -> list[Message]:
    return [decode_message(join_frames([read_frame(frame)])) for frame in broker.log.values()]


def steps(broker: MemoryBroker) -> list[int]:
    found = [message.content for message in published(broker)]
    return [record.step for content in found if isinstance(content, Written) for record in content.records]


def findings(broker: MemoryBroker) -> set[int]:
    found = [message.content for message in published(broker)]
    return {one.first_step for content in found if isinstance(content, Written) for one in content.findings}


def test_messages_are_numbered_and_count_the_records_before() -> None:
    broker = MemoryBroker()
    writer = begin(broker)
    writer.write_structure(Structure(subjects=("weight",)))
    writer.write(walk(3, layout(4)))
    writer.write_events([Event("resumed", 3)])
    writer.write(walk(2, layout(4), first=3))
    writer.close()
    found = [(message.number, message.records_before) for message in published(broker)]
    assert found == [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3), (5, 5)]


@pytest.mark.parametrize("kind", ["refuses", "hides"])
def test_a_batch_that_comes_again_is_published_once_with_all_its_findings(kind: str) -> None:
    broker = MemoryBroker()
    writer = begin(broker)
    batch = tuple(walk(3, layout(4)))
    setattr(broker, kind, 2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            writer.write(batch, [finding(0)])
    writer.write((), [finding(1)])  # findings alone go between
    writer.write(batch, [finding(0), finding(2)])
    writer.write(walk(2, layout(4), first=3))
    assert steps(broker) == [0, 1, 2, 3, 4]
    assert findings(broker) == {0, 1, 2}
    assert [message.number for message in published(broker)] == list(range(len(broker.log)))
    assert writer.take_missing() is None


def test_a_batch_of_several_messages_goes_on_where_it_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindscope.storage.streams.stream_writer._MESSAGE_BYTES", 1)
    broker = MemoryBroker()
    writer = begin(broker)
    batch = walk(5, layout(4))
    writer.write(batch[:1])
    broker.hides = 1
    with pytest.raises(StoreUnavailable):
        writer.write(batch[1:], earlier=batch[:1])
    broker.refuses = 1
    with pytest.raises(StoreUnavailable):
        writer.write(batch[1:], earlier=batch[:1])
    writer.write(batch[1:], earlier=batch[:1])
    assert steps(broker) == list(range(5))
    last = published(broker)[-1].content
    assert isinstance(last, Written)
    assert len(last.earlier) == 1


def test_a_batch_that_was_given_up_and_has_arrived_is_counted_back() -> None:
    broker = MemoryBroker()
    writer = begin(broker)
    broker.hides = 1
    with pytest.raises(StoreUnavailable):
        writer.write(walk(3, layout(4)))
    writer.write(walk(2, layout(4), first=3))
    assert steps(broker) == list(range(5))
    missing = writer.take_missing()
    assert missing is not None
    assert missing.count == -3
    assert writer.take_missing() is None


def test_a_record_that_goes_back_in_time_is_refused_and_nothing_is_published() -> None:
    broker = MemoryBroker()
    writer = begin(broker)
    writer.write(walk(2, layout(4)))
    calls = broker.calls
    with pytest.raises(StoreError, match="expects a record after step 1"):
        writer.write(walk(3, layout(4), first=1))
    assert broker.calls == calls
    writer.close()
    with pytest.raises(StoreError, match="is closed"):
        writer.write(walk(2, layout(4), first=5))


@pytest.mark.usefixtures("fast_retries")
def test_what_a_broker_refuses_waits_in_the_backlog_of_the_queue() -> None:
    broker = MemoryBroker()
    store = StreamStore(broker)
    queue = QueueWriter(store.begin_run("name", run_id="run"))
    broker.refuses = 5
    for record in walk(100, layout(4)):
        queue.put(record)
    assert queue.close()
    assert steps(broker) == list(range(100))
    assert queue.lost == 0
    assert store.find_run("run").state == "finished"


def test_reading_is_refused_with_what_to_do() -> None:
    store = StreamStore(MemoryBroker())
    with pytest.raises(StoreUnavailable, match="mindscope collect --from memory-broker --store runs/"):
        store.runs()
    with pytest.raises(StoreUnavailable, match="only carries records"):
        store.find_run("latest")
    for read in (store.metrics, store.findings, store.verify, store.structure, store.delete_run):
        with pytest.raises(StoreUnavailable, match="only carries records"):
            read("run")


def test_a_forked_child_publishes_nothing() -> None:
    broker = MemoryBroker()
    writer = begin(broker)
    parent, child = multiprocessing.Pipe()
    pid = os.fork()
    if not pid:
        try:
            writer.close()
            writer.write([StepRecord(0, 0.0)])
        except StoreError as error:
            child.send((str(error), broker.calls))
        os._exit(0)
    os.waitpid(pid, 0)
    words, calls = parent.recv()
    assert "forked child" in words
    assert calls == 1
