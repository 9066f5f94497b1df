"""Messages between a training and a collector: each is one call of a `RunWriter`, as bytes and back.

A message is JSON and packed blocks, compressed together and sealed with a checksum. It stands alone: it names its run,
rank and writer, and has the layouts of its blocks, which take little beside them. A message larger than a broker takes
travels in frames, each of which says of which message it is and which part.

    frame      magic, version, XXH3-64 of the message, part, parts; then a piece of the message
    message    checksum, zstd(length of the JSON, JSON, layouts, blocks)
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import xxhash

from ..attachments import Attachment
from ..encoding.block_packing import PackedBlocks, pack_alike, unpack_columns
from ..encoding.checksums import seal, unseal
from ..encoding.codec import compress, decompress
from ..encoding.record_codec import (
    finding_of,
    histogram_bytes,
    layout_bytes,
    read_histogram,
    read_layout,
    read_structure,
    structure_bytes,
    to_json,
)
from ..errors import StoreDamaged, StoreTooNew
from ..history.block_stacks import is_empty
from ..records import Block, Event, Finding, Layout, Outcome, StepRecord
from ..run_info import Run, RunState, Structure

_MAGIC: Final = b"ms"
_VERSION: Final = 1
_FRAME: Final = struct.Struct("<2sBQHH")
_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Begun:
    """A training has begun its rank of a run; `run` has the facts about its machine."""

    run: Run


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Records, findings, and observations of earlier records, as `RunWriter.write` takes them."""

    records: tuple[StepRecord, ...] = ()
    findings: tuple[Finding, ...] = ()
    earlier: tuple[StepRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Noted:
    """Events that belong to no record."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Attacked:
    """Outcomes of attacks."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """The training still runs and has nothing to write."""


@dataclass(frozen=True, slots=True)
class Said:
    """The last word of the rank, as JSON; it is no part of the recording, and its number counts words alone."""

    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """How the run ended."""

    state: RunState
    error: str


Content = Begun | Structure | Written | Noted | Attacked | Alive | Said | Closed


@dataclass(frozen=True, slots=True)
class Sender:
    """The writer of one rank of a run.

    Args:
        name: Of the run.
        process: The identity of its process, as `process.identity` gives it.
        token: Random; another writer of the same rank has another.
    """

    run: str
    rank: int
    name: str
    process: str
    token: str


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One call of a writer.

    Args:
        number: Of the message among those of its sender, from 0.
        records_before: How many records the sender's messages before it have, so that missing ones can be counted.
    """

    sender: Sender
    number: int
    records_before: int
    content: Content

    @property
    def key(self) -> str:
        """Its identity, by which a broker recognises one that is sent again."""
        return f"{self.sender.run}.rank{self.sender.rank}.{self.sender.token}.{self.number}"


def encode_message(message: Message) -> bytes:
    """Return a message as bytes; `decode_message` gives it back."""
    blobs: list[bytes] = []
    head = {
        "sender": asdict(message.sender),
        "number": message.number,
        "before": message.records_before,
        "kind": type(message.content).__name__,
        "content": _content(message.content, blobs),
        "lengths": [len(blob) for blob in blobs],
    }
    text = to_json(head).encode()
    return seal(compress(b"".join((_LENGTH.pack(len(text)), text, *blobs))), "message")


def decode_message(data: bytes) -> Message:
    """Return the message that `encode_message` was given, its blocks rounded.

    Raises:
        StoreDamaged: It is not what was sent.
    """
    raw = decompress(unseal(data, "message"))
    try:
        (length,) = _LENGTH.unpack_from(raw)
        start = _LENGTH.size + length
        head = json.loads(raw[_LENGTH.size : start])
        ends = [start, *(start + end for end in accumulate(head["lengths"]))]
        blobs = iter([raw[low:high] for low, high in pairwise(ends)])
        content = _READERS[head["kind"]](head["content"], blobs)
        return Message(Sender(**head["sender"]), head["number"], head["before"], content)
    except (KeyError, TypeError, ValueError, StopIteration, struct.error) as error:
        raise StoreDamaged(f"a message cannot be read: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Frame:
    """A message, or a part of one that is larger than its broker takes.

    Args:
        message: The XXH3-64 of the whole message.
        part: Of `parts`, from 0.
    """

    message: int
    part: int
    parts: int
    piece: bytes

    def to_bytes(self) -> bytes:
        """Return it as bytes; `read_frame` gives it back."""
        return _FRAME.pack(_MAGIC, _VERSION, self.message, self.part, self.parts) + self.piece


def frames_of(data: bytes, most_bytes: int) -> list[Frame]:
    """Cut a message into frames of at most `most_bytes` bytes."""
    size = most_bytes - _FRAME.size
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    digest = xxhash.xxh3_64_intdigest(data)
    return [Frame(digest, part, len(pieces), piece) for part, piece in enumerate(pieces)]


def read_frame(data: bytes) -> Frame:
    """Return the frame from its bytes.

    Raises:
        StoreDamaged: It is no frame.
        StoreTooNew: A newer mindscope sent it.
    """
    if len(data) < _FRAME.size or data[:2] != _MAGIC:
        raise StoreDamaged("a message is none of mindscope's")
    _, version, digest, part, parts = _FRAME.unpack_from(data)
    if version > _VERSION:
        raise StoreTooNew(f"a message has format {version}, this version reads up to {_VERSION}; upgrade mindscope")
    return Frame(digest, part, parts, data[_FRAME.size :])


def join_frames(frames: Sequence[Frame]) -> bytes:
    """Return the message of all its frames, in their order.

    Raises:
        StoreDamaged: They are not what was sent.
    """
    data = b"".join(frame.piece for frame in frames)
    if xxhash.xxh3_64_intdigest(data) != frames[0].message:
        raise StoreDamaged("a message differs from its checksum")
    return data


def _content(content: Content, blobs: list[bytes]) -> object:
    """Return what goes into the JSON of a message; append what does not to `blobs`."""
    match content:
        case Begun(run):
            return asdict(run)
        case Structure():
            blobs.append(structure_bytes(content))
            return None
        case Written():
            return _written(content, blobs)
        case Noted(events):
            return [_event_row(event, blobs) for event in events]
        case Attacked(outcomes):
            return [asdict(outcome) for outcome in outcomes]
        case _:
            return asdict(content)


def _written(content: Written, blobs: list[bytes]) -> dict[str, object]:
    """Return records without their blocks, which are appended to `blobs`, those of one layout together."""
    together: dict[int, tuple[int, list[Block]]] = {}  # by identity: to hash a layout takes long
    shapes: list[bytes] = []

    def known(block: Block) -> int:
        place, blocks = together.setdefault(id(block.layout), (len(together), []))
        blocks.append(block)
        return place

    def row(record: StepRecord) -> list[object]:
        shapes.extend(map(histogram_bytes, record.histograms))
        return [
            int(record.step),
            int(record.micro_step),
            float(record.time),
            bool(record.skipped),
            {name: float(value) for name, value in record.scalars.items()},
            [known(block) for block in record.blocks if not is_empty(block)],
            [[shape.site, shape.subject, shape.call] for shape in record.histograms],
            [_event_row(event, shapes) for event in record.events],
        ]

    rows = [row(record) for record in content.records]
    earlier = [row(record) for record in content.earlier]
    packed = [pack_alike(blocks) for _, blocks in together.values()]
    for (_, blocks), few in zip(together.values(), packed, strict=True):
        blobs += [_layout_bytes(blocks[0].layout), few.data]
    blobs += shapes
    findings = [asdict(finding) for finding in content.findings]
    lengths = [few.lengths.tolist() for few in packed]
    return {"records": rows, "earlier": earlier, "findings": findings, "blocks": lengths}


def _event_row(event: Event, blobs: list[bytes]) -> dict[str, object]:
    """Return the fields of an event; append its attachment, if it has one, to `blobs`."""
    if event.attachment is None:
        return {**event.fields()}
    blobs.append(event.attachment.file())
    return {**event.fields(), "attachment": True}


def _read_event(row: dict[str, Any], blobs: Iterator[bytes]) -> Event:  # Any: parsed JSON
    return Event(**{**row, "attachment": Attachment(next(blobs))}) if row.get("attachment") else Event(**row)


#: Layouts of which the bytes are known; a training has some ten.
_layouts_sent: dict[int, tuple[Layout, bytes]] = {}
_MOST_LAYOUTS: Final = 256


def _layout_bytes(layout: Layout) -> bytes:
    """Return the layout's bytes, made once."""
    known = _layouts_sent.get(id(layout))
    if known is None:
        if len(_layouts_sent) >= _MOST_LAYOUTS:
            _layouts_sent.clear()
        known = _layouts_sent[id(layout)] = (layout, layout_bytes(layout))
    return known[1]


@lru_cache(maxsize=4096)
def _layout(data: bytes) -> Layout:
    return read_layout(data)


def _read_written(raw: Any, blobs: Iterator[bytes]) -> Written:  # Any: parsed JSON, as below
    blocks = []
    for lengths in raw["blocks"]:
        layout = _layout(next(blobs))
        blocks.append(iter(_blocks(layout, PackedBlocks(next(blobs), np.array(lengths, np.uint32)))))

    def record(row: Any) -> StepRecord:
        step, micro_step, at, skipped, scalars, places, shapes, events = row
        return StepRecord(
            *(step, at, micro_step, skipped),
            blocks=tuple(next(blocks[place]) for place in places),
            scalars=scalars,
            histograms=tuple(read_histogram(site, subject, call, next(blobs)) for site, subject, call in shapes),
            events=tuple(_read_event(event, blobs) for event in events),
        )

    return Written(
        records=tuple(map(record, raw["records"])),
        earlier=tuple(map(record, raw["earlier"])),
        findings=tuple(map(finding_of, raw["findings"])),
    )


def _blocks(layout: Layout, packed: PackedBlocks) -> Iterator[Block]:
    values, present = unpack_columns(packed, range(len(layout.statistics)), len(layout.sites))
    for at, flags in enumerate(present):
        table = np.ascontiguousarray(values[:, at].T)
        if flags.all():
            yield Block(layout, table)
        else:
            table[~flags] = np.nan
            yield Block(layout, table, flags)


def _read_run(raw: Any) -> Run:
    return replace(Run(**{**raw, "ranks": tuple(raw["ranks"])}), state="running")


_READERS: Final[dict[str, Any]] = {
    "Begun": lambda raw, _: Begun(_read_run(raw)),
    "Structure": lambda _, blobs: read_structure(next(blobs)),
    "Written": _read_written,
    "Noted": lambda raw, blobs: Noted(tuple(_read_event(row, blobs) for row in raw)),
    "Attacked": lambda raw, _: Attacked(tuple(Outcome(**row) for row in raw)),
    "Alive": lambda _, __: Alive(),
    "Said": lambda raw, _: Said(**raw),
    "Closed": lambda raw, _: Closed(**raw),
}
