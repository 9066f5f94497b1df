"""The garbage collector rests while our modules are imported, and is as it was before afterwards."""

import gc
import subprocess
import sys

import pytest
from mindscope.garbage import uncollected

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
