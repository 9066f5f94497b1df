"""Which ranks must agree is learned from declarations, equal weights and equal gradients; others are not compared."""

import numpy as np
import pytest
from mindscope.probe.facts.rank_agreement import Agreement
from mindscope.probe.facts.rank_comparison import RankComparison
from mindscope.probe.facts.rank_facts import BUFFER, CONSTANT, OF_DATA, TIMES, RankMessage

NAN = float("nan")


def message(weights, *, gradients=None, keys=None, flags=None, declared=None, **more):
    """What a rank says of tensors `t0`, `t1`, ...; a gradient of 0 is a zero one, and None none."""
    count = len(weights)
    given = np.array([NAN] * count if gradients is None else gradients, np.float64)
    values = {
        "batch": NAN,
        "random_state": NAN,
        "clip": 1.0,
        "times": np.zeros(len(TIMES)),
        "parameters": np.array(weights, np.float64),
        "gradients": given,
        "reduced": np.stack([given, given], axis=1),
        "local": np.full((count, 2), NAN),
        "keys": np.arange(float(count)) if keys is None else np.array(keys, np.float64),
        "declared": np.full(count, NAN) if declared is None else np.array(declared, np.float64),
        "flags": np.zeros(count) if flags is None else np.array(flags, np.float64),
        "names": tuple(f"t{int(key)}" for key in (range(count) if keys is None else keys)),
    }
    return RankMessage(**{**values, **more})


def differing(*steps):
    """{(quantity, ranks): sites} of everything that differs in the last of these steps, each a list of messages."""
    comparison = RankComparison()
    for at, messages in enumerate(steps):
        found = list(comparison.facts(at, messages))
    return {
        (data["quantity"], tuple(rank for rank, value in enumerate(data["by_rank"]) if value is not None)): data[
            "sites"
        ]
        for kind, data in found
        if kind == "rank_checksums" and data["quantity"] in ("parameters", "buffers", "gradients")
        if not data["is_equal"]
    }


def test_copies_that_were_equal_must_stay_so():
    before = [message([1, 2]), message([1, 2])]
    assert differing(before) == {}
    assert differing(before, [message([3, 4]), message([3, 5])]) == {("parameters", (0, 1)): ["t1"]}


def test_shards_that_a_script_cuts_by_hand_are_compared_with_their_replicas_only():
    def mesh(odd=0):  # two by two: t0 is replicated, t1 is split
        return [message([7, 1]), message([7, 2]), message([7, 1]), message([7, 2 + odd])]

    assert differing(mesh()) == {}
    assert differing(mesh(), mesh()) == {}
    assert differing(mesh(), mesh(odd=1)) == {("parameters", (1, 3)): ["t1"]}


def test_stages_with_other_names_or_shapes_are_no_replicas():
    first, second = message([1, 2], keys=[10, 11]), message([3], keys=[20])
    assert differing([first, second, first, second]) == {}
    flipped = message([4], keys=[20])
    assert differing([first, second] * 2, [first, second, first, flipped]) == {("parameters", (1, 3)): ["t20"]}


def test_equal_gradients_bind_weights_that_were_never_made_equal():
    apart = [message([1], gradients=[5]), message([2], gradients=[5])]
    assert differing(apart) == {("parameters", (0, 1)): ["t0"]}
    zeros = [message([1], gradients=[0]), message([2], gradients=[0])]
    assert differing(zeros) == {}


def test_a_declaration_binds_from_the_first_step_on():
    assert differing([message([1], declared=[9]), message([2], declared=[9])]) == {("parameters", (0, 1)): ["t0"]}
    assert differing([message([1], declared=[8]), message([2], declared=[9])]) == {}


@pytest.mark.parametrize("flag", [CONSTANT, BUFFER])
def test_what_starts_alike_by_nature_counts_once_it_has_moved_and_is_equal(flag):
    def ranks(one, other):  # t1 is split, so that t0 has no company either
        return [message([one, 1], flags=[flag, 0]), message([other, 2], flags=[flag, 0])]

    assert differing(ranks(0, 0), ranks(3, 4)) == {}
    kind = "buffers" if flag == BUFFER else "parameters"
    assert differing(ranks(0, 0), ranks(3, 3), ranks(3, 4)) == {(kind, (0, 1)): ["t0"]}


def test_a_constant_is_a_copy_where_all_other_weights_are():
    def ranks(one, other):
        return [message([one, 1], flags=[CONSTANT, 0]), message([other, 1], flags=[CONSTANT, 0])]

    assert differing(ranks(0, 0), ranks(3, 4)) == {("parameters", (0, 1)): ["t0"]}


def test_a_gradient_that_only_the_owner_holds_is_not_compared():
    before = [message([1, 2]), message([1, 2])]
    owned = [message([1, 2], gradients=[5, NAN]), message([1, 2], gradients=[NAN, 6])]
    assert differing(before, owned) == {}


def test_ranks_of_one_replica_are_told_from_ranks_of_several():
    def parts(*messages):
        comparison = RankComparison()
        found = [data for kind, data in comparison.facts(0, messages) if data.get("quantity") == "batch"]
        return found[0]["parts"]

    def split(place, batch, flag=0):
        return message([5, 10 + place], flags=[0, flag], keys=[0, 1 if not flag else 10 + place], batch=batch)

    assert parts(split(0, 1.0), split(1, 1.0), split(0, 2.0), split(1, 2.0)) == [0, 1, 0, 1]
    assert parts(split(0, 1.0, OF_DATA), split(1, 2.0, OF_DATA)) == [0, 0]


@pytest.mark.parametrize("apart", [1, 5])
def test_weights_that_stand_still_on_one_rank_in_spite_of_a_gradient_are_told(apart):
    comparison, told = RankComparison(), []
    for at in range(4):
        ranks = [message([at, at], gradients=[1, 1]), message([100, at], gradients=[2, 0], keys=[10, 1])]
        for one in ranks:  # the shards t0 of two ranks
            object.__setattr__(one, "names", ("shard", "t1"))
        told += [data for kind, data in comparison.facts(apart * at, ranks) if kind == "rank_still"]
    (only,) = told
    assert (only["at"], only["rank"], only["sites"]) == ((2 if apart == 1 else 5), 1, ["shard"])


def test_what_was_learned_is_kept_when_a_parameter_joins():
    agreement_before = [message([1]), message([1])]
    joined = [message([2, 8]), message([3, 8])]
    assert differing(agreement_before, joined) == {("parameters", (0, 1)): ["t0"]}
    assert Agreement().sets() == {}
