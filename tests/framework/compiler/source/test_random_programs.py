"""Random nestings of if, while, for, break, continue, return and calls: the graph gives what Python gives."""

import os

import numpy as np
import pytest
from mindscope.framework import Tensor

from tests.framework.compiler.source.programs import random_program
from tests.framework.compiler.source.running import Compiled, assert_equal

BLOCKS = 40 if os.environ.get("MINDSCOPE_TEST_ALL") else 4
SIZE = 50


def arguments(random):
    a, b = (Tensor(np.float64(random.normal() * 2)) for _ in range(2))
    return a, b, Tensor(random.normal(size=3) * 2)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_random_program_gives_what_python_gives(block):
    for seed in range(block * SIZE, (block + 1) * SIZE):
        program, source = random_program(seed)
        random = np.random.default_rng(seed)
        given = [arguments(random) for _ in range(4)]
        compiled = Compiled(program, *given[0])
        for values in given:
            try:
                assert_equal(compiled(*values), program(*values))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, arguments {values}\n{source}\n{error}") from error
