"""What goes into bytes comes out of them, for any numbers."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mindscope.storage import Block, Layout, StoreDamaged, StoreError, quantize
from mindscope.storage.encoding.block_packing import PackedBlocks, pack, pack_alike, pack_stacks, unpack
from mindscope.storage.encoding.block_rounding import quantize_alike, stack_values
from mindscope.storage.encoding.codec import decode, decode_steps, encode, encode_steps

DTYPES = ("float32", "float64", "uint64")
ANY = st.floats(allow_nan=True, allow_infinity=True)
COUNTS = st.one_of(st.integers(0, 2**53).map(float), st.just(float("nan")), st.just(-1.5))


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal in every bit, but that a NaN is a NaN."""
    nan = np.isnan(left)
    return bool((nan == np.isnan(right)).all() and (left.view(np.uint64)[~nan] == right.view(np.uint64)[~nan]).all())


@st.composite
def blocks(draw) -> Block:
    sites = draw(st.integers(0, 20))
    layout = Layout("weight", tuple(map(str, range(sites))), ("a", "b", "c"), DTYPES)
    columns = [draw(hnp.arrays(np.float64, sites, elements=kind)) for kind in (ANY, ANY, COUNTS)]
    present = draw(st.none() | hnp.arrays(np.bool_, sites))
    return Block(layout, np.stack(columns, axis=1), present)


@settings(max_examples=200, deadline=None)
@given(blocks())
def test_a_block_comes_back_quantized(block: Block) -> None:
    expected, read = quantize(block), unpack(block.layout, pack(block))
    assert same_bits(read.values, expected.values)
    assert (read.present is None) == (expected.present is None)
    assert expected.present is None or (read.present == expected.present).all()


@settings(max_examples=200, deadline=None)
@given(blocks())
def test_quantizing_twice_changes_nothing(block: Block) -> None:
    once = quantize(block)
    assert same_bits(quantize(once).values, once.values)


@settings(max_examples=200, deadline=None)
@given(blocks())
def test_quantized_values_are_within_half_a_unit_of_their_dtype_or_exact(block: Block) -> None:
    read = quantize(block)
    there = np.ones(len(block.values), bool) if block.present is None else block.present
    assert same_bits(read.values[there, 1], block.values[there, 1])
    assert same_bits(read.values[there, 2], block.values[there, 2])
    with np.errstate(over="ignore"):
        rounded = block.values[there, 0].astype(np.float32).astype(np.float64)
    mine = read.values[there, 0]
    assert same_bits(mine, rounded) or same_bits(mine, block.values[there, 0])


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=ANY | COUNTS | st.floats(width=32)))
def test_arrays_come_back_bit_for_bit(values: np.ndarray) -> None:
    assert same_bits(decode(encode(values), values.shape), values)
    middle = slice(len(values) // 2, len(values))
    assert same_bits(decode(encode(values), values.shape, middle), values[middle])


@settings(deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62)))
def test_steps_come_back(steps: list[int]) -> None:
    assert decode_steps(encode_steps(np.array(steps, dtype=np.int64))).tolist() == steps


def test_blocks_packed_together_have_the_bytes_of_each_packed_alone() -> None:
    random = np.random.default_rng(3)
    one = Layout("weight", ("x", "y", "z"), ("norm", "zeros"), ("float32", "uint64"))
    blocks = [Block(one, np.column_stack([random.normal(size=3), random.integers(0, 300, 3)])) for _ in range(9)]
    blocks[2] = Block(one, blocks[2].values * np.array([1e60, 1.0]))
    blocks[4] = Block(one, blocks[4].values, np.array([True, False, True]))
    blocks[7] = Block(one, blocks[7].values * 0.0)
    assert pack_alike(blocks).apart() == [pack(block) for block in blocks]
    for block, data in zip(blocks, pack_alike(blocks).apart(), strict=True):
        np.testing.assert_array_equal(unpack(one, data).values, quantize(block).values)


@settings(max_examples=100, deadline=None)
@given(st.lists(blocks(), min_size=1, max_size=8), st.data())
def test_what_is_rounded_and_packed_together_is_as_if_it_were_alone(found: list[Block], data: st.DataObject) -> None:
    few = [one for one in found if len(one.layout.sites) == len(found[0].layout.sites)]
    for one, rounded in zip(few, quantize_alike(few), strict=True):
        assert same_bits(rounded.values, quantize(one).values)
    cut = data.draw(st.integers(1, len(few)))
    parts = [part for part in (few[:cut], few[cut:]) if part]
    stacks = pack_stacks(DTYPES, [stack_values(part) for part in parts], [[b.present for b in part] for part in parts])
    assert [stack.apart() for stack in stacks] == [[pack(one) for one in part] for part in parts]


@pytest.mark.parametrize("lengths", [(), (3,), (2, 2, 2), (2, 2, 0, 5, 5, 1)])
def test_packed_blocks_are_cut_and_joined_as_a_list_of_them(lengths: tuple[int, ...]) -> None:
    blocks = [bytes([at]) * length for at, length in enumerate(lengths)]
    packed = PackedBlocks.of(blocks)
    for begin, end in combinations_with_replacement(range(len(blocks) + 1), 2):
        assert packed[begin:end].apart() == blocks[begin:end]
        assert PackedBlocks.joined([packed[:begin], packed[begin:]]).apart() == blocks
    assert [row.tobytes() for _, table in packed.tables() for row in table] == blocks


def test_a_column_that_float32_cannot_hold_is_widened_alone() -> None:
    layout = Layout("weight", ("x", "y"), ("a", "b"), ("float32", "float32"))
    for hard in (1e300, 1e-310, 1e-40, -3.5e38):
        read = quantize(Block(layout, np.array([[hard, 0.1], [0.1, np.inf]])))
        assert read.values[:, 0].tolist() == [hard, 0.1]
        assert read.values[:, 1].tolist() == [float(np.float32(0.1)), np.inf]


def test_counts_that_are_zero_take_no_room() -> None:
    layout = Layout("weight", tuple(map(str, range(1000))), ("nans", "size"), ("uint64", "uint64"))
    block = Block(layout, np.stack([np.zeros(1000), np.full(1000, 70_000.0)], axis=1))
    assert len(pack(block)) < 4 * 1000 + 20


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02\0\0\0\x01\0\0\x63", b"\x02\0\0\0\x01\0\0\x12123"])
def test_bytes_that_are_no_block_are_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged, match="a packed block of 2 sites"):
        unpack(Layout("weight", ("x", "y"), ("a",), ("float64",)), data)


@pytest.mark.parametrize("data", [b"\x12nonsense", b"\x63", b""])
def test_bytes_that_are_no_array_are_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        decode(data, (2, 2))


def test_a_block_of_another_shape_is_refused() -> None:
    layout = Layout("weight", ("x",), ("a",), ("float16",))
    with pytest.raises(StoreError, match="use float32, float64 or uint64"):
        quantize(Block(layout, np.zeros((1, 1))))
    with pytest.raises(StoreError, match="expects one dtype a statistic"):
        pack(Block(Layout("weight", ("x",), ("a", "b"), ("float32",)), np.zeros((1, 2))))
