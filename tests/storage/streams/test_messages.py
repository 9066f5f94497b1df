"""Messages are exact, stand alone, and are refused when a byte differs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.storage import (
    Event,
    MemoryStore,
    ModuleInfo,
    Outcome,
    Run,
    StepRecord,
    StoreDamaged,
    StoreTooNew,
    Structure,
)
from mindscope.storage.attachments import Attachment
from mindscope.storage.streams.messages import (
    Alive,
    Attacked,
    Begun,
    Closed,
    Content,
    Message,
    Noted,
    Sender,
    Written,
    decode_message,
    encode_message,
    frames_of,
    join_frames,
    read_frame,
)

from tests.storage.samples import bits, finding, layout, walk

SENDER = Sender("20261121-run", 3, "a name \ud800", '{"pid": 1}', "0123456789abcdef")
RUN = Run("20261121-run", "digits", "running", 1.5, 2.5, ranks=(3,), tags={"lr": 0.1}, config={"every": 1})
CONTENTS: dict[str, Content] = {
    "begun": Begun(RUN),
    "structure": Structure((ModuleInfo("a", "Linear", 0, ("b",)),), subjects=("weight",)),
    "noted": Noted((Event("resumed", 7, "a", 1, {"count": 3, "words": ["x", None]}),)),
    "attacked": Attacked((Outcome("pgd", "linf", 0.5, 0.25, 100, float("inf"), {"seed": 1}),)),
    "alive": Alive(),
    "closed": Closed("failed", "ValueError: no"),
}


def through(content: Content, number: int = 5) -> Message:
    return decode_message(encode_message(Message(SENDER, number, 17, content)))


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_message_comes_back_as_it_was(content: Content) -> None:
    back = through(content)
    assert (back.sender, back.number, back.records_before) == (SENDER, 5, 17)
    assert back.content == content
    assert back.key == "20261121-run.rank3.0123456789abcdef.5"


def test_the_files_of_events_travel_with_them() -> None:
    events = [Event("media", at, data={"name": at}, attachment=Attachment(bytes([at]) * at)) for at in (3, 0, 5)]
    records = walk(3, layout())
    drawn = StepRecord(9, 1.0, histograms=records[0].histograms, events=(events[0], Event("resumed", 9), events[1]))
    back = through(Written((drawn, StepRecord(10, 2.0, events=(events[2],))))).content
    assert isinstance(back, Written)
    assert [event.attachment and event.attachment.file() for record in back.records for event in record.events] == [
        b"\3\3\3", None, b"", b"\5\5\5\5\5",
    ]  # fmt: skip
    noted = through(Noted(tuple(events))).content
    assert isinstance(noted, Noted)
    assert [event.attachment.file() for event in noted.events] == [event.attachment.file() for event in events]


def test_records_come_back_as_a_store_gives_them_back() -> None:
    records = walk(80, layout(), layout(7, "weight"), layout(3, "gradient", part=1))
    with MemoryStore() as store:
        writer = store.begin_run("x")
        writer.write(records)
        stored = list(store.replay(writer.run.id))
    back = through(Written(tuple(records), (finding(), finding(9)), tuple(records[:2]))).content
    assert isinstance(back, Written)
    assert [bits(record) for record in back.records] == [bits(record) for record in stored]
    assert [bits(record) for record in back.earlier] == [bits(record) for record in stored[:2]]
    assert back.findings[0].key == finding().key
    assert np.isnan(back.findings[0].evidence["limit"])


def test_layouts_of_equal_messages_are_one_object() -> None:
    first, second = (through(Written(tuple(walk(2, layout())))).content for _ in range(2))
    assert isinstance(first, Written)
    assert isinstance(second, Written)
    assert first.records[0].blocks[0].layout is second.records[0].blocks[0].layout


@given(at=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_byte_that_differs_is_damage(at: int, flip: int) -> None:
    (frame,) = frames_of(encode_message(Message(SENDER, 0, 0, Written(tuple(walk(3, layout(5)))))), 1 << 20)
    data = bytearray(frame.to_bytes())
    data[at % len(data)] ^= flip
    with pytest.raises((StoreDamaged, StoreTooNew)):
        _read(bytes(data))


def _read(data: bytes) -> Message:
    frame = read_frame(data)
    if (frame.part, frame.parts) != (0, 1):
        raise StoreDamaged("the rest of it never comes")
    return decode_message(join_frames([frame]))


def test_a_large_message_is_cut_and_joined() -> None:
    data = bytes(np.random.default_rng(0).integers(0, 256, 10_000, dtype=np.uint8))
    frames = [read_frame(frame.to_bytes()) for frame in frames_of(data, 1000)]
    assert all(len(frame.to_bytes()) <= 1000 for frame in frames)
    assert [frame.part for frame in frames] == list(range(11))
    assert join_frames(frames) == data
    with pytest.raises(StoreDamaged, match="differs"):
        join_frames(frames[:-1])


def test_a_newer_form_is_told() -> None:
    data = bytearray(frames_of(b"x", 100)[0].to_bytes())
    data[2] = 9
    with pytest.raises(StoreTooNew, match="format 9"):
        read_frame(bytes(data))
