"""What ranks have in common and what a reduction did, told from what each of them says of itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.probe.facts.rank_comparison import RankComparison
from mindscope.probe.facts.rank_facts import TIMES, Board, RankMessage, reduction_of
from mindscope.probe.kernels.fingerprints import project

SITES = ("a.weight", "a.bias", "b.weight", "b.bias")
SIZES = (40, 8, 24, 3)


def projected(arrays):
    """`(n, 2)` of these arrays."""
    found = np.zeros((len(arrays), 2))
    for array, row in zip(arrays, found, strict=True):
        project(array, row)
    return found


def gradients(rank, seed=0):
    rng = np.random.default_rng([seed, rank])
    return [rng.normal(size=size).astype(np.float32) for size in SIZES]


def message(rank, local, result, **more):
    """What a healthy rank says, but for `more`."""
    values = {
        "batch": 100.0 + rank,
        "random_state": 200.0 + rank,
        "clip": 1.0,
        "times": np.full(len(TIMES), 0.5 + rank),
        "parameters": np.arange(4.0),
        "gradients": np.arange(4.0) + 10.0,
        "reduced": projected(result),
        "local": projected(local),
        "keys": np.arange(4.0),
        "declared": np.full(4, np.nan),
        "flags": np.zeros(4),
        "names": SITES,
    }
    return RankMessage(**{**values, **more})


def averaged(parts, weights):
    return [sum(np.float32(w) * part[at] for part, w in zip(parts, weights, strict=True)) for at in range(len(SIZES))]


def told(messages):
    """{quantity or kind: data}."""
    return {data.get("quantity", kind): data for kind, data in RankComparison().facts(7, messages)}


def ranks(count, weights=None, **odd):
    """Messages of a reduction with these weights; keywords change single ranks: `r1={"batch": 100.0}`."""
    parts = [gradients(rank) for rank in range(count)]
    result = averaged(parts, [1 / count] * count if weights is None else weights)
    return [message(rank, parts[rank], result, **odd.get(f"r{rank}", {})) for rank in range(count)]


def test_healthy_ranks_share_weights_and_gradients_and_nothing_else():
    found = told(ranks(3))
    assert {name: data["is_equal"] for name, data in found.items() if "is_equal" in data} == {
        "parameters": True,
        "gradients": True,
        "local_gradients": False,
        "batch": False,
        "random_state": False,
    }
    assert found["rank_reduction"]["weights"] == pytest.approx([1 / 3] * 3, rel=1e-5)
    assert found["rank_reduction"]["residual"] < 1e-5
    assert found["rank_times"]["forward"] == [0.5, 1.5, 2.5]
    assert found["parameters"]["at"] == 7


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.5, 0.0, 0.5), (1.0, 0.0, 0.0), (1 / 3, 1 / 3, 0.0)])
def test_the_weights_of_a_reduction_are_found(weights):
    found = told(ranks(3, weights))["rank_reduction"]
    assert found["weights"] == pytest.approx(weights, abs=1e-5)
    assert found["sites"] == []


def test_clipping_is_divided_out():
    parts = [gradients(rank) for rank in range(2)]
    result = [0.25 * one for one in averaged(parts, [0.5, 0.5])]
    messages = [message(rank, parts[rank], result, clip=0.25) for rank in range(2)]
    assert told(messages)["rank_reduction"]["weights"] == pytest.approx([0.5, 0.5], rel=1e-5)


def test_wrong_bits_in_one_tensor_are_named_with_rank_and_site():
    odd = np.arange(4.0)
    odd[2] = 99.0
    found = told(ranks(3, r1={"parameters": odd}))["parameters"]
    assert (found["odd"], found["sites"], found["is_equal"]) == ([1], ["b.weight"], False)
    parts = [gradients(rank) for rank in range(3)]
    result = averaged(parts, [1 / 3] * 3)
    result[2] = result[2].copy()
    result[2][5] += 50.0
    found = told([message(rank, parts[rank], result) for rank in range(3)])["rank_reduction"]
    assert found["sites"] == ["b.weight"]


def test_a_rank_that_reduced_nothing_is_told_by_its_own_weights():
    parts = [gradients(rank) for rank in range(2)]
    other = {"gradients": np.arange(4.0) + 20.0, "reduced": projected(parts[1])}
    mean = averaged(parts, [0.5, 0.5])
    found = told([message(0, parts[0], mean), message(1, parts[1], mean, **other)])
    assert found["gradients"]["is_equal"] is False
    assert found["rank_reduction"]["weights_elsewhere"][0] is None
    assert found["rank_reduction"]["weights_elsewhere"][1] == pytest.approx([0.0, 1.0], abs=1e-5)


def test_equal_batches_silent_ranks_and_other_models():
    messages = ranks(3, r1={"batch": 100.0}, r2={"batch": 100.0})
    assert told(messages)["batch"]["is_equal"] is True
    silent = told([messages[0], None, messages[2]])
    assert silent["batch"]["by_rank"][1] is None
    assert "rank_reduction" not in silent
    assert told([messages[0], None, None]) == {}
    parts = told(ranks(2, r1={"keys": np.arange(4.0) + 10.0}))  # stages of a pipeline
    assert not {"parameters", "gradients", "rank_reduction"} & set(parts)
    assert "batch" in parts
    nothing = {"parameters": np.full(4, np.nan), "batch": np.nan}
    assert not {"parameters", "batch"} & set(told(ranks(2, r0=nothing, r1=nothing)))


def test_a_message_survives_its_bytes():
    one = message(3, gradients(3), gradients(4))
    again = RankMessage.decode(one.encode())
    for name in RankMessage.__slots__:
        np.testing.assert_array_equal(getattr(again, name), getattr(one, name))


@settings(max_examples=40)
@given(st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=6), st.integers(0, 1000))
def test_any_weights_are_found_from_enough_parameters(weights, seed):
    rng = np.random.default_rng(seed)
    parts = [[rng.normal(size=30) for _ in range(5)] for _ in weights]
    result = [sum(w * part[at] for w, part in zip(weights, parts, strict=True)) for at in range(5)]
    found = reduction_of(projected(result), [projected(part) for part in parts])
    if np.linalg.norm(weights) > 1e-3:
        assert found.weights == pytest.approx(weights, abs=1e-4)
    few = reduction_of(projected(result[:1])[:, :1], [projected(part[:1])[:, :1] for part in parts])
    assert few is None


@given(st.integers(0, 200), st.integers(0, 100))
def test_projections_of_a_sum_are_sums_of_projections(size, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, size))
    np.testing.assert_allclose(projected([one + other]), projected([one]) + projected([other]), atol=1e-9)
    assert projected([one])[0, 0] == pytest.approx(one.sum())


def test_a_board_waits_for_nobody_and_gives_up_on_the_silent():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    store = torch.distributed.HashStore()
    boards = [Board(store, rank, 2) for rank in range(2)]
    for board in boards:
        board._name = "board"
    boards[0].post(0, b"a")
    assert boards[0].read() == {}
    boards[1].post(0, b"b")
    assert boards[0].read() == {0: [b"a", b"b"]}
    assert boards[0].read() == {}
    boards[0].post(1, b"c")
    assert [found for _ in range(30) if (found := boards[0].read())] == [{1: [b"c", None]}]
