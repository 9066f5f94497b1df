"""The garbage collector rests while our modules are imported, and tells which objects there are, beside any thread."""

import gc
import subprocess
import sys
from threading import Event, Thread

import pytest
from mindscope.garbage import objects_of, uncollected

WORLD = "import gc, weakref\nclass Node: pass\n{made}print(gc.isenabled(), gc.get_threshold(), dead() is None)\n"
MADE = "one = Node()\none.self = one\ndead = weakref.ref(one)\ndel one\ngc.collect()\n"


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was(is_on):
    (gc.enable if is_on else gc.disable)()
    frozen = gc.get_freeze_count()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert (gc.isenabled(), gc.get_freeze_count()) == (is_on, frozen)
    finally:
        gc.enable()


def test_a_script_finds_the_collector_at_work(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WORLD.format(made=MADE))
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "mindscope", "run", "--store", tmp_path / "runs", "--", script]
    watched = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert plain == watched == "True (700, 10, 10) True\n"


class Kind:
    """A class of which this file alone makes objects."""


class Derived(Kind):
    """A class that derives from it."""


class Proxy:
    """An object that claims to be another, and must not be asked."""

    @property
    def __class__(self):
        raise AssertionError("the proxy was asked for its class")


def test_objects_of_a_class_and_of_those_that_derive_from_it_are_found():
    proxy, one, other = Proxy(), Kind(), Derived()
    found = objects_of(Kind)
    del proxy
    assert {id(item) for item in found} == {id(one), id(other)}
    assert objects_of(Derived) == [other]


def test_tuples_that_another_thread_is_making_can_still_be_resized():
    others = [[number] for number in range(50_000)]  # a look through all objects takes a while
    ended, wrong = Event(), []

    def make():
        while not ended.is_set() and not wrong:
            try:
                made = tuple(_slowly(50))
            except SystemError as error:
                wrong.append(error)
            else:
                assert len(made) == 50

    thread = Thread(target=make)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        for _ in range(100):
            objects_of(Kind)
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert others
    assert not wrong


def _slowly(count):
    for number in range(count):
        yield sum(range(20)) + number
