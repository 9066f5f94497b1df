"""What was read of a store takes a bounded number of bytes, whatever is looked at."""

import numpy as np
import pytest
from mindscope.dashboard.queries.answer_cache import MOST_BYTES, AnswerCache, bytes_of
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from ..matrices import matrix_of

MIB = 2**20


def test_the_latest_used_are_kept_and_the_bytes_are_bounded():
    cache = AnswerCache(most_bytes=10 * MIB)
    for name in range(100):
        cache.keep(name, np.zeros(MIB, np.uint8))
        cache.find(0)  # is in use all the time
    assert cache.bytes <= 10 * MIB
    assert cache.find(0) is not None
    assert [name for name in range(100) if cache.find(name) is not None] == [0, *range(91, 100)]


def test_a_value_that_would_push_all_others_out_is_not_kept():
    cache = AnswerCache(most_bytes=4 * MIB)
    cache.keep("small", "words")
    cache.keep("huge", np.zeros(2 * MIB, np.uint8))
    assert cache.find("huge") is None
    assert cache.find("small") == ("words",)


def test_a_value_under_the_same_key_takes_the_place_of_the_former():
    cache = AnswerCache()
    for _ in range(3):
        cache.keep("a", np.zeros(100))
    assert cache.bytes == 800
    cache.keep("nothing", None)
    assert cache.find("nothing") == (None,)


@pytest.mark.parametrize(
    ("value", "least"),
    [(matrix_of(np.zeros((10, 100))), 10 * 100 * 8 * 2), ({"a": [np.zeros(50)]}, 400), (({"x" * 1000},), 1000)],
    ids=["matrix", "nested", "set"],
)
def test_what_a_value_holds_is_counted(value, least):
    assert least <= bytes_of(value) < 3 * least + 1000


def test_many_large_maps_stay_within_the_bound():
    with open_store("memory:") as store:
        run = store.begin_run("one").run.id
        reader = Reader(store)
        for name in range(60):
            reader.cached(run, ("map", name), lambda _: matrix_of(np.zeros((1000, 150))))
        assert reader._kept.bytes <= MOST_BYTES
