"""Blocks of statistics as bytes and back: column after column, each as narrow as it can be kept exactly.

A packed block is a header (sites, statistics, one code a column), the presence bitmap when a site is missing, and the
columns themselves, statistic by statistic, so that one statistic of all sites is one slice.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreDamaged
from ..records import Block, Layout
from .block_rounding import Presence, check_alike, column_slices, fit_float32, partial_presence, stack_values
from .codec import DTYPES


@dataclass(frozen=True, slots=True, eq=False)
class PackedBlocks:
    """Some packed blocks.

    Args:
        data: The bytes of all blocks.
        lengths: `(blocks,)` uint32, the number of bytes of each block.
    """

    data: bytes
    lengths: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, at: slice) -> "PackedBlocks":
        begin, end, _ = at.indices(len(self))
        if end - begin == len(self):
            return self
        ends = self._ends()
        return PackedBlocks(self.data[ends[begin] : ends[max(begin, end)]], self.lengths[begin:end])

    @staticmethod
    def of(blocks: Sequence[bytes]) -> "PackedBlocks":
        """Join separate blocks."""
        return PackedBlocks(b"".join(blocks), np.array([len(block) for block in blocks], dtype=np.uint32))

    @staticmethod
    def joined(parts: Sequence["PackedBlocks"]) -> "PackedBlocks":
        """Return all blocks of all parts."""
        if len(parts) == 1:
            return parts[0]
        lengths = [part.lengths for part in parts]
        return PackedBlocks(b"".join(part.data for part in parts), np.concatenate(lengths) if parts else _NOTHING)

    def apart(self) -> list[bytes]:
        """Return the blocks one by one."""
        return [self.data[begin:end] for begin, end in pairwise(self._ends())]

    def tables(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Yield runs of blocks of equal length: the index of the first one, and their bytes `(blocks, length)`."""
        changes = (np.flatnonzero(self.lengths[1:] != self.lengths[:-1]) + 1).tolist()
        low = 0
        for begin, end in pairwise([0, *changes, len(self)] if len(self) else ()):
            length = int(self.lengths[begin])
            high = low + (end - begin) * length
            yield begin, np.frombuffer(self.data, np.uint8, high - low, low).reshape(end - begin, length)
            low = high

    def _ends(self) -> list[int]:
        ends: list[int] = [0, *np.cumsum(self.lengths, dtype=np.int64).tolist()]
        return ends


_NOTHING = np.empty(0, np.uint32)


#: Version of the format below; stored beside every packed block.
PACK_VERSION = 1

#: The width of a column of counts follows from the last limit that its largest count reaches; 0 if all are zero.
_LIMITS = np.array([1.0, 2.0**8, 2.0**16, 2.0**32])
_WIDTHS = np.array([0, 1, 2, 4, 18], dtype=np.uint8)
_HEADER = struct.Struct("<IHB")


def pack(block: Block) -> bytes:
    """Return the block as bytes; `unpack` gives `quantize(block)` back."""
    return pack_alike([block]).data


def pack_alike(blocks: Sequence[Block]) -> PackedBlocks:
    """Return blocks of one layout as bytes, each as by `pack`; many cost little more than one."""
    check_alike(blocks)
    return pack_stacks(blocks[0].layout.dtypes, [stack_values(blocks)], [[block.present for block in blocks]])[0]


def pack_stacks(
    dtypes: tuple[str, ...], values: Sequence[NDArray[np.float64]], presence: Sequence[Presence]
) -> list[PackedBlocks]:
    """Pack blocks of several layouts of one `kind`, given values `(blocks, sites, statistics)` and presence."""
    ends = list(accumulate(map(len, values)))
    whole = np.concatenate(values)
    present = partial_presence([flags for few in presence for flags in few])
    for at, flags in present.items():
        whole[at, ~flags] = 0.0
    codes = np.full((len(whole), len(dtypes)), 18, dtype=np.uint8)
    fits = fit_float32(whole)
    for run in column_slices(dtypes, "float32"):
        codes[:, run] = 14 if fits is None else np.where(fits[:, run], 14, 18)
    for run in column_slices(dtypes, "uint64"):
        codes[:, run] = _count_codes(whole[:, :, run])
    return [_packed(whole, codes, present, range(begin, end)) for begin, end in pairwise([0, *ends])]


def _packed(
    values: NDArray[np.float64], codes: NDArray[np.uint8], present: Mapping[int, NDArray[np.bool_]], few: range
) -> PackedBlocks:
    """Return some of the blocks `(blocks, sites, statistics)`, by the code of each column."""
    by_header = _by_header(codes, values.shape[1], present, few)
    if len(by_header) == 1:
        table = _bytes_of(values[few.start : few.stop], *by_header)
        return PackedBlocks(table.tobytes(), np.full(len(table), table.shape[1], np.uint32))
    packed = dict.fromkeys(few, b"")
    for header, same in by_header.items():
        for at, row in zip(same, _bytes_of(values[same], header), strict=True):
            packed[at] = row.tobytes()
    return PackedBlocks.of(list(packed.values()))


def _by_header(
    codes: NDArray[np.uint8], sites: int, present: Mapping[int, NDArray[np.bool_]], few: range
) -> dict[bytes, Sequence[int]]:
    """Return the indices of some blocks by header; most often all share one."""
    if not present and (codes[few.start : few.stop] == codes[few.start]).all():
        return {_header(codes[few.start].tobytes(), sites, None): few}
    found: dict[bytes, list[int]] = {}
    for at in few:
        found.setdefault(_header(codes[at].tobytes(), sites, present.get(at)), []).append(at)
    return dict(found)


def _header(codes: bytes, sites: int, present: NDArray[np.bool_] | None) -> bytes:
    bitmap = b"" if present is None else np.packbits(present).tobytes()
    return _HEADER.pack(sites, len(codes), present is not None) + codes + bitmap


def _bytes_of(values: NDArray[np.float64], header: bytes) -> NDArray[np.uint8]:
    """Return values `(blocks, sites, statistics)` of blocks with the same header, by column, a row of bytes each."""
    codes = header[_HEADER.size : _HEADER.size + values.shape[2]]
    parts = [np.broadcast_to(np.frombuffer(header, np.uint8), (len(values), len(header)))]
    begin = 0
    for code, alike in groupby(codes):
        end = begin + len(list(alike))
        if code:
            few = np.ascontiguousarray(values[:, :, begin:end].transpose(0, 2, 1), dtype=DTYPES[code])
            parts.append(few.reshape(len(values), -1).view(np.uint8))
        begin = end
    return np.concatenate(parts, axis=1)


def unpack(layout: Layout, data: bytes) -> Block:
    """Return the block that `pack` was given, quantized.

    Raises:
        StoreDamaged: The bytes are not a block of that layout.
    """
    columns, (present,) = unpack_columns(PackedBlocks.of([data]), range(len(layout.statistics)), len(layout.sites))
    values = np.ascontiguousarray(columns[:, 0].T)
    if not present.all():
        values[~present] = np.nan
        return Block(layout, values, present)
    return Block(layout, values)


def unpack_columns(
    blocks: PackedBlocks, columns: Sequence[int], sites: int, rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values `(columns, blocks, rows)` and presence `(blocks, rows)` of some columns of many packed blocks.

    Raises:
        StoreDamaged: A block's bytes do not fit its header.
    """
    height = len(range(*rows.indices(sites)))
    values = np.empty((len(columns), len(blocks), height), dtype=np.float64)
    present = np.ones((len(blocks), height), dtype=np.bool_)
    for begin, table, header in _alike(blocks):
        end, offsets = begin + len(table), _check_length(header, table.shape[1], sites)
        if header[6]:
            bitmap = table[:, len(header) : len(header) + (sites + 7) // 8]
            present[begin:end] = np.unpackbits(bitmap, axis=1, count=sites)[:, rows].astype(np.bool_)
        for at, column in enumerate(columns):
            code, stop = offsets[column]
            if code == 0:
                values[at, begin:end] = 0.0
                continue
            dtype = DTYPES[code]
            start = stop - sites * dtype.itemsize
            values[at, begin:end] = np.ascontiguousarray(table[:, start:stop]).view(dtype)[:, rows]
    return values, present


def _check_length(header: bytes, length: int, sites: int) -> list[tuple[int, int]]:
    """Return the code and the end of each column of blocks with one header and length."""
    try:
        count, offsets = _offsets(header)
    except (KeyError, struct.error) as error:
        raise StoreDamaged(f"a packed block of {sites} sites has no readable header: {error!r}") from error
    if count != sites or length != offsets[-1][1]:
        raise StoreDamaged(f"the length of a packed block of {sites} sites differs from its header")
    return offsets


def _count_codes(counts: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the code of each column of counts `(blocks, sites, statistics)`; float64 if a value is no count."""
    columns = np.ascontiguousarray(counts.transpose(2, 1, 0))  # contiguous for NumPy over many blocks
    if not columns.size:
        return np.zeros((counts.shape[0], counts.shape[2]), np.uint8)
    with np.errstate(invalid="ignore"):
        whole = ((columns >= 0.0) & (columns == np.floor(columns))).all(axis=1)
    widths = _WIDTHS[np.searchsorted(_LIMITS, columns.max(axis=1), side="right")]
    codes: NDArray[np.uint8] = np.where(whole, widths, np.uint8(18)).T
    return codes


def _alike(blocks: PackedBlocks) -> Iterator[tuple[int, NDArray[np.uint8], bytes]]:
    """Yield runs of blocks with equal headers: the first, their bytes a row each, the header without the bitmap."""
    for first, table in blocks.tables():
        begin = 0
        while begin < len(table):
            header = table[begin, : _HEADER.size + int.from_bytes(table[begin, 4:6].tobytes(), "little")]
            other = (table[begin:, : len(header)] != header).any(axis=1)
            end = begin + int(other.argmax()) if other.any() else len(table)
            yield first + begin, table[begin:end], header.tobytes()
            begin = end


@lru_cache(maxsize=256)
def _offsets(header: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of sites, and the code and the end of each column."""
    sites, statistics, partial = _HEADER.unpack_from(header)
    stop = _HEADER.size + statistics + ((sites + 7) // 8 if partial else 0)
    offsets = []
    for code in header[_HEADER.size : _HEADER.size + statistics]:
        stop += sites * DTYPES[code].itemsize if code else 0
        offsets.append((code, stop))
    return sites, offsets or [(0, stop)]
