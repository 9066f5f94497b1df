"""The functions and random programs that capture from source is tested with, by bytecode: plain Python's results."""

import os

import numpy as np
import pytest
from mindscope.framework.compiler import jit

from tests.framework.compiler.source.cases import CASES
from tests.framework.compiler.source.programs import random_program
from tests.framework.compiler.source.running import assert_equal
from tests.framework.compiler.source.test_random_programs import arguments

SEEDS = range(600 if os.environ.get("MINDSCOPE_TEST_ALL") else 60)


def by_bytecode(fn):
    return jit(fn, capture_mode="bytecode", jit_level="O0")


def outcome(fn, given):
    """The result, or the class of what was raised."""
    try:
        return fn(*given)
    except Exception as error:  # noqa: BLE001 (whatever it is, its class is compared)
        return type(error).__name__


@pytest.mark.parametrize("name", CASES)
def test_every_form_of_python_gives_what_plain_python_gives(name):
    function, points = CASES[name]
    compiled = by_bytecode(function)
    for _ in range(2):
        for given in points:
            given = given if isinstance(given, tuple) else (given,)
            assert_equal(outcome(compiled, given), outcome(function, given))


def test_random_programs_give_what_python_gives():
    for seed in SEEDS:
        program, source = random_program(seed)
        compiled, random = by_bytecode(program), np.random.default_rng(seed)
        for values in [arguments(random) for _ in range(4)] * 2:
            try:
                assert_equal(compiled(*values), program(*values))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, arguments {values}\n{source}\n{error}") from error
