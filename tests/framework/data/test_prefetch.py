"""The prefetching thread: it changes nothing but the time, passes exceptions on, and never outlives its iterator."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from mindscope.framework.data import ArrayDataset, GeneratorDataset


def _threads():
    return [t for t in threading.enumerate() if t.name == "mindscope-prefetch"]


def test_items_are_the_same_with_and_without():
    dataset = ArrayDataset(np.arange(10)).shuffle(1).batch(3)
    plain, ahead = ([x.tolist() for (x,) in d.epoch(2)] for d in (dataset, dataset.prefetch(2)))
    assert plain == ahead
    assert not _threads()
    assert len(dataset.prefetch(2)) == len(dataset)


def test_items_are_prepared_before_they_are_asked_for():
    made, second = [], threading.Event()

    def make(epoch):
        for number in range(3):
            made.append(number)
            if number == 1:
                second.set()
            yield np.array(number)

    items = GeneratorDataset(make).prefetch(2).epoch(0)
    assert int(next(items)[0]) == 0
    assert second.wait(10.0)
    assert [int(x) for (x,) in items] == [1, 2]
    assert made == [0, 1, 2]


def test_no_more_is_read_ahead_than_asked_for():
    made = []
    items = GeneratorDataset(lambda epoch: (made.append(n) or np.array(n) for n in range(100))).prefetch(2).epoch(0)
    next(items)
    items.close()
    assert len(made) <= 4  # one consumed, two waiting, one in the hands of the thread


def test_an_exception_reaches_the_consumer_after_the_items_before_it():
    def make(epoch):
        yield np.array(1)
        raise OSError("the disk is gone")

    items = GeneratorDataset(make).prefetch(4).epoch(0)
    assert int(next(items)[0]) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)
    assert not _threads()


@pytest.mark.parametrize("end", ["close", "forget"])
def test_an_abandoned_epoch_leaves_no_thread_and_closes_its_source(end):
    closed = threading.Event()

    def make(epoch):
        try:
            while True:
                yield np.zeros(3)
        finally:
            closed.set()

    items = GeneratorDataset(make).prefetch(1).epoch(0)
    next(items)
    assert len(_threads()) == 1
    if end == "close":
        items.close()
    else:
        del items
        gc.collect()
    assert closed.is_set()
    assert not _threads()


def test_an_epoch_never_begun_starts_no_thread():
    items = ArrayDataset(np.arange(3)).prefetch(1).epoch(0)
    assert not _threads()
    items.close()


def test_two_epochs_at_once_do_not_disturb_each_other():
    dataset = ArrayDataset(np.arange(20)).prefetch(2)
    pairs = list(zip(dataset.epoch(0), dataset.epoch(1), strict=True))
    assert [int(a[0]) for a, _ in pairs] == [int(b[0]) for _, b in pairs] == list(range(20))


def test_a_program_that_ends_amid_an_epoch_ends():
    program = (
        "import numpy as np; from mindscope.framework.data import ArrayDataset;"
        "items = ArrayDataset(np.arange(100)).prefetch(1).epoch(0); next(items); print('end')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("end\n", "")
