"""Variables of running functions are read without keeping them, or filling what the function keeps of them."""

import sys
import weakref

from mindscope.probe.frame_variables import variables_of_function


class Thing:
    pass


def test_variables_of_a_function_are_read_and_not_kept():
    def training(width):
        loss = Thing()
        alive = weakref.ref(loss)
        read = variables_of_function(sys._getframe())
        assert (read["width"], read["loss"] is loss, read["alive"]) == (3, True, alive)
        read.clear()
        del loss
        return alive()

    assert training(3) is None


def test_what_a_function_keeps_of_its_variables_stays_as_it_is():
    def training(width):
        kept = locals()
        rate = 0.1
        read = variables_of_function(sys._getframe())
        return sorted(kept), read, rate

    kept, read, _ = training(3)
    assert "rate" not in kept
    assert read == {} or sys.version_info >= (3, 13)


def test_a_module_and_a_class_are_left_alone():
    names = {"read": variables_of_function, "here": sys._getframe}
    exec("kept = 1\nfound = read(here())\nclass C:\n    kept = 2\n    found = read(here())\n", names)
    assert (names["kept"], names["found"], names["C"].kept, names["C"].found) == (1, {}, 2, {})
