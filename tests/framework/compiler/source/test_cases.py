"""Every form of Python's syntax: the graph of a function gives what the function gives."""

import pytest

from tests.framework.compiler.source.cases import CASES
from tests.framework.compiler.source.running import Compiled, assert_equal


@pytest.mark.parametrize("name", CASES)
def test_a_captured_function_gives_what_python_gives(name):
    fn, arguments = CASES[name]
    compiled = Compiled(fn, *arguments[0])
    for given in arguments:
        assert_equal(compiled(*given), fn(*given))
    assert compiled.holds()
