"""The promises of `transport.py`, kept by NATS and by Kafka's own mock cluster, which speaks the real protocol."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress

import pytest
from mindscope.storage import StoreUnavailable
from mindscope.storage.streams.stream_url import open_transport
from mindscope.storage.streams.transport import Delivery, Subscription, Transport


@pytest.fixture(scope="module")
def kafka_servers() -> Iterator[str]:
    """The addresses of a mock cluster of librdkafka, which lives as long as its client."""
    kafka = pytest.importorskip("confluent_kafka", reason="Kafka's client confluent-kafka is not installed")
    cluster = kafka.Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "", "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del cluster


@pytest.fixture(params=["nats", "kafka"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Transport:
    if request.param == "nats":
        return open_transport(request.getfixturevalue("nats_url"))
    monkeypatch.setattr("mindscope.storage.streams.kafka_transport._create", lambda *_: None)  # the mock cannot
    project = request.node.name.partition("[")[0].removeprefix("test_")[:60]
    return open_transport(f"kafka://{request.getfixturevalue('kafka_servers')}/{project}")


def publish(transport: Transport, recording: str, count: int, first: int = 0) -> list[bytes]:
    publisher = transport.publisher(recording)
    sent = [f"{recording} {number}".encode() for number in range(first, first + count)]
    for data in sent:
        publisher.publish(data.decode(), [data])
    publisher.close()
    return sent


def receive(
    subscriptions: Sequence[Subscription], is_enough: Callable[[list[Delivery]], bool], *, seconds: float = 40.0
) -> list[Delivery]:
    """What arrives until it is enough, acknowledged by whoever got it."""
    found: list[Delivery] = []
    end = time.monotonic() + seconds
    while not is_enough(found):
        assert time.monotonic() < end, f"only {len(found)} frames came"
        for subscription in subscriptions:
            came = subscription.receive(0.1)
            subscription.take_revoked()
            subscription.acknowledge(came)
            found += came
    return found


def is_empty(subscription: Subscription, *, tries: int = 5) -> bool:
    """Whether nothing waits; a broker on a busy machine may have to be asked again, as the promises say."""
    for _ in range(tries - 1):
        with suppress(StoreUnavailable):
            return subscription.is_empty()
    return subscription.is_empty()


def test_each_recording_arrives_once_and_in_order(transport: Transport, eventually: Callable) -> None:
    transport.check()
    sent = {name: publish(transport, name, 30) for name in ("a", "b", "c", "d")}
    with ExitStack() as stack:
        subscription = stack.enter_context(transport.subscription())
        found = receive([subscription], lambda came: len(came) >= 120)
        eventually(lambda: is_empty(subscription))
    for name, frames in sent.items():
        assert [one.data for one in found if one.data.startswith(name.encode())] == frames
    assert len({one.partition for one in found if one.data.startswith(b"a")}) == 1


def test_what_is_not_acknowledged_comes_again_to_another(transport: Transport, eventually: Callable) -> None:
    sent = publish(transport, "a", 20)
    first = transport.subscription()
    came: list[Delivery] = []
    end = time.monotonic() + 40
    while len(came) < 20 and time.monotonic() < end:
        came += first.receive(0.2)
        first.take_revoked()
    first.acknowledge(came[:5])
    first.close()
    with ExitStack() as stack:
        second = stack.enter_context(transport.subscription())
        assert not is_empty(second)
        found = receive([second], lambda came: len(came) >= 15)
        eventually(lambda: is_empty(second))
    assert [one.data for one in found] == sent[5:]


def test_only_what_is_stored_without_a_gap_is_forgotten_or_each_alone(transport: Transport) -> None:
    sent = publish(transport, "a", 10)
    first = transport.subscription()
    came: list[Delivery] = []
    end = time.monotonic() + 40
    while len(came) < 10 and time.monotonic() < end:
        came += first.receive(0.2)
        first.take_revoked()
    first.acknowledge(came[:3] + came[6:])  # three in the midst are not stored yet
    first.close()
    with ExitStack() as stack:
        second = stack.enter_context(transport.subscription())
        found = receive([second], lambda came: len(came) >= 3)
    assert [one.data for one in found][:3] == sent[3:6]


def test_two_collectors_share_the_work(transport: Transport) -> None:
    transport.check()
    with ExitStack() as stack:
        both = [stack.enter_context(transport.subscription()) for _ in range(2)]
        end = time.monotonic() + 30
        number, got = 0, [0, 0]
        while min(got) == 0:
            assert time.monotonic() < end, got
            for name in "abcdefgh":
                publish(transport, name, 1, first=number)
            number += 1
            for at, subscription in enumerate(both):
                came = subscription.receive(0.3)
                subscription.take_revoked()
                subscription.acknowledge(came)
                got[at] += len(came)


def test_what_is_acknowledged_while_the_work_is_shared_anew_is_no_error(transport: Transport) -> None:
    transport.check()
    sent = publish(transport, "a", 20)
    with ExitStack() as stack:
        first = stack.enter_context(transport.subscription())
        came: list[Delivery] = []
        end = time.monotonic() + 40
        while len(came) < 20:
            assert time.monotonic() < end
            came += first.receive(0.2)
            first.take_revoked()
        second = stack.enter_context(transport.subscription())
        again: list[Delivery] = []
        for _ in range(10):  # it joins; Kafka waits for the first one, which does not ask meanwhile
            again += second.receive(0.2)
        second.acknowledge(again)
        first.acknowledge(came)
        while not is_empty(first):
            assert time.monotonic() < end
            for one in (first, second):
                found = one.receive(0.2)
                one.take_revoked()
                one.acknowledge(found)
                again += found
    assert {one.data for one in again} <= set(sent)


def test_a_broker_that_is_not_there_is_unavailable() -> None:
    for url in ("nats://127.0.0.1:1/x", "kafka://127.0.0.1:1/x"):
        with pytest.raises(StoreUnavailable, match=f"no broker answers at {url} .*: start it"):
            open_transport(url).check()


def test_a_publisher_may_be_used_where_an_event_loop_runs_already(nats_url: str) -> None:
    import asyncio

    from mindscope.storage import open_store

    async def begin() -> str:
        with open_store(nats_url) as store:
            writer = store.begin_run("x")
            closing = threading.Thread(target=writer.close)  # as that of a queue does
            closing.start()
            closing.join()
            return writer.run.state

    assert asyncio.run(begin()) == "finished"


def test_a_forked_child_does_not_disturb_its_parents_connection(nats_url: str) -> None:
    import gc
    import os

    transport = open_transport(nats_url)
    publisher = transport.publisher("a")
    publisher.publish("first", [b"first"])
    pid = os.fork()
    if not pid:
        try:
            with suppress(StoreUnavailable):
                publisher.publish("child", [b"child"])
            publisher.close()
            del publisher
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    publisher.publish("second", [b"second"])
    publisher.close()
    with ExitStack() as stack:
        found = receive([stack.enter_context(transport.subscription())], lambda came: len(came) >= 2)
    assert [one.data for one in found] == [b"first", b"second"]


def test_many_publishers_of_one_process_do_not_disturb_each_other(nats_url: str) -> None:
    transport = open_transport(nats_url)
    threads = [threading.Thread(target=publish, args=(transport, f"r{at}", 20)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ExitStack() as stack:
        found = receive([stack.enter_context(transport.subscription())], lambda came: len(came) >= 160)
    for at in range(8):
        mine = [one.data for one in found if one.data.startswith(f"r{at} ".encode())]
        assert mine == [f"r{at} {number}".encode() for number in range(20)]


def test_a_message_that_is_published_again_is_recognised_by_the_server(nats_url: str) -> None:
    transport = open_transport(nats_url)
    publisher = transport.publisher("a")
    for _ in range(3):
        publisher.publish("key", [b"one", b"two"])
    publisher.publish("key2", [b"three"])
    publisher.close()
    with ExitStack() as stack:
        found = receive([stack.enter_context(transport.subscription())], lambda came: len(came) >= 3)
    assert sorted(one.data for one in found) == [b"one", b"three", b"two"]


def test_a_stream_that_is_full_refuses_and_drops_nothing(nats_url: str) -> None:
    transport = open_transport(nats_url.replace("/test-", "/full-") + "?max_bytes=20000&partitions=1")
    publisher = transport.publisher("a")
    taken: list[int] = []

    def fill() -> None:
        for number in range(100):
            publisher.publish(str(number), [bytes(1000)])
            taken.append(number)

    with pytest.raises(StoreUnavailable, match="maximum bytes exceeded"):
        fill()
    assert 10 < len(taken) < 20
    with ExitStack() as stack:
        receive([stack.enter_context(transport.subscription())], lambda came: len(came) >= len(taken))
    publisher.publish("100", [bytes(1000)])  # there is room again
    publisher.close()
    _remove(nats_url.replace("/test-", "/full-"))


def test_a_stream_that_drops_the_oldest_is_told(nats_url: str, caplog: pytest.LogCaptureFixture) -> None:
    from mindscope.storage.streams.nats_connection import NatsConnection, stream_name
    from mindscope.storage.streams.transport import parse_address
    from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

    url = nats_url.replace("/test-", "/drop-")
    address = parse_address(url, ())
    config = StreamConfig(
        name=stream_name(address),
        subjects=[f"mindscope.{address.project}.0"],
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.OLD,
        max_bytes=10_000,
    )
    with NatsConnection(address) as connection:
        connection.ask(lambda _, jetstream: jetstream.add_stream(config))
    with caplog.at_level(logging.WARNING):
        open_transport(url).check()
    assert "drops the oldest messages when it is full" in caplog.text
    _remove(url)


def test_a_stream_of_another_form_is_refused(nats_url: str) -> None:
    from mindscope.storage.streams.nats_connection import NatsConnection, stream_name
    from mindscope.storage.streams.transport import parse_address

    url = nats_url.replace("/test-", "/form-")
    address = parse_address(url, ())
    with NatsConnection(address) as connection:
        connection.ask(lambda _, jetstream: jetstream.add_stream(name=stream_name(address), subjects=["form.>"]))
    with pytest.raises(StoreUnavailable, match="must have the retention `workqueue`"):
        open_transport(url).check()
    _remove(url)


def test_messages_are_no_larger_than_the_stream_takes_and_it_is_asked_for_once(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mindscope.storage.streams.nats_connection import NatsConnection, stream_name
    from mindscope.storage.streams.transport import parse_address
    from nats.js.api import RetentionPolicy, StreamConfig
    from nats.js.client import JetStreamContext

    url = nats_url.replace("/test-", "/small-")
    address = parse_address(url, ())
    config = StreamConfig(
        name=stream_name(address),
        subjects=[f"mindscope.{address.project}.0"],
        retention=RetentionPolicy.WORK_QUEUE,
        max_msg_size=40 << 10,
    )
    with NatsConnection(address) as connection:
        connection.ask(lambda _, jetstream: jetstream.add_stream(config))
    asked: list[str] = []
    ask = JetStreamContext.stream_info

    async def counted(self: JetStreamContext, name: str, *more: object) -> object:
        asked.append(name)
        return await ask(self, name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(JetStreamContext, "stream_info", counted)
    publisher = open_transport(url).publisher("a")
    assert len(asked) == 1
    assert publisher.frame_bytes == 36 << 10
    publisher.publish("key", [bytes(publisher.frame_bytes)])
    publisher.close()
    _remove(url)


def _remove(url: str) -> None:
    from mindscope.storage.streams.nats_connection import NatsConnection, stream_name
    from mindscope.storage.streams.transport import parse_address

    address = parse_address(url, ())
    with NatsConnection(address) as connection:
        connection.ask(lambda _, jetstream: jetstream.delete_stream(stream_name(address)))
