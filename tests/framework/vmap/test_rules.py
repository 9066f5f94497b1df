"""Every primitive in the table has a batching rule, and vmap with it equals a loop over the samples."""

import itertools

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Key, Tensor, random, vmap
from mindscope.framework.errors import EngineError
from mindscope.framework.vmap import BATCHING
from mindscope.framework.vmap.array_rules import SEQUENTIAL
from mindscope.framework.vmap.batched import rule_of

from tests.contracts.primitive_cases import CASES

#: Their samples would differ in shape, so that there is nothing a batched tensor could hold.
UNMAPPABLE = {"nonzero", "unique"}
#: What they take beside tensors decides: random masks are judged in test_randomness.
RANDOM = {name for name, cases in CASES.items() if any(isinstance(x, Key) for x in cases[0].args)}
SAMPLES = 3

_EVERY = [(name, i) for name in sorted(set(PRIMITIVES) - UNMAPPABLE - RANDOM) for i in range(len(CASES.get(name, [])))]


def test_every_primitive_has_a_rule():
    def lacks(name):
        try:
            rule_of(PRIMITIVES[name], CASES[name][0].attributes if CASES.get(name) else {})
        except EngineError:
            return True
        return False

    assert [name for name in sorted(PRIMITIVES) if lacks(name)] == []
    assert sorted(set(BATCHING) - set(PRIMITIVES)) == []


def test_few_primitives_run_sample_by_sample():
    assert len(SEQUENTIAL) < 0.1 * len(PRIMITIVES)


def variants(x):
    """Samples that differ: scaled floats, integers and bools in another order."""
    if x.dtype.kind in "fc":
        return np.stack([x * factor for factor in (1.0, 0.9, 0.95)])
    return np.stack([np.roll(x, shift, -1) if x.ndim else x for shift in range(SAMPLES)])


def subsets(case):
    places = [i for i, x in enumerate(case.args) if isinstance(x, np.ndarray | np.generic)]
    single = [(i,) for i in places]
    return dict.fromkeys([*single, tuple(places), *itertools.combinations(places, max(1, len(places) - 1))])


def is_mask(name, case, place):
    return name in ("getitem", "put") and place > 0 and np.asarray(case.args[place]).dtype.kind == "b"


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_vmap_equals_a_loop(name, number):
    case = CASES[name][number]
    for chosen in subsets(case):
        if not chosen or any(is_mask(name, case, i) for i in chosen):
            continue
        args = [
            Tensor(variants(np.asarray(x)) if i in chosen else np.asarray(x))
            if isinstance(x, np.ndarray | np.generic)
            else x
            for i, x in enumerate(case.args)
        ]
        if name == "searchsorted":
            args = [Tensor(np.sort(x.numpy(), -1)) if i == 0 else x for i, x in enumerate(args)]

        def call(*given):
            return PRIMITIVES[name](*given, **case.attributes)

        found = vmap(call, tuple(0 if i in chosen else None for i in range(len(args))))(*args)
        loop = [call(*(x[s] if i in chosen else x for i, x in enumerate(args))) for s in range(SAMPLES)]
        found = found if isinstance(found, tuple) else (found,)
        loop = [y if isinstance(y, tuple) else (y,) for y in loop]
        for y, expected in zip(found, zip(*loop, strict=True), strict=True):
            wanted = np.stack([e.numpy() for e in expected])
            assert y.dtype == wanted.dtype
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12, atol=1e-12, err_msg=f"batched: {chosen}")


@pytest.mark.parametrize("name", sorted(RANDOM - {"dropout"}))
def test_draws_with_a_key_for_each_sample_equal_a_loop(name):
    case = CASES[name][0]

    def call(_, key=None):
        args = [Tensor(x) if isinstance(x, np.ndarray) else x for x in case.args[1:]]
        return PRIMITIVES[name](random.next_key() if key is None else key, *args, **case.attributes)

    random.set_seed(5)
    found = vmap(call, randomness="different")(Tensor(np.zeros(SAMPLES))).numpy()
    random.set_seed(5)
    base = random.next_key()
    for i in range(SAMPLES):
        np.testing.assert_array_equal(found[i], call(None, random.fold_in(base, i)).numpy())
