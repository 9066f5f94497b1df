"""The node tests of the package onnx through the importer; those that fail are listed by name, with the reason.

By default a sample drawn with a fixed seed runs, and every excused case; MINDSCOPE_TEST_ALL=1 runs them all.
"""

import os
import random

import pytest

from tests.framework.onnx import node_suite

_SAMPLE = 250


def _names():
    names = sorted(node_suite.cases())
    if os.environ.get("MINDSCOPE_TEST_ALL"):
        return names
    return sorted({*random.Random(20240229).sample(names, _SAMPLE), *node_suite.excused()})


@pytest.mark.parametrize("name", _names())
def test_a_node_computes_what_onnx_expects(name):
    case, reason = node_suite.cases()[name], node_suite.excused().get(name)
    if reason is None:
        node_suite.run(case)
        return
    with pytest.raises(Exception):  # noqa: B017, PT011  (whatever it fails with: only that it fails is known)
        node_suite.run(case)


def test_every_excused_case_exists_and_has_a_reason():
    unknown = sorted(set(node_suite.excused()) - set(node_suite.cases()))
    assert not unknown
    assert all(len(reason) > 10 for reason in node_suite.excused().values())


def test_the_comparison_sees_a_wrong_number_a_wrong_type_and_a_wrong_shape():
    import numpy as np

    right = np.ones((2, 3), np.float32)
    for wrong in (right * 1.01, right.astype(np.float64), right.reshape(3, 2)):
        with pytest.raises(AssertionError):
            node_suite.compare(wrong, right, 1e-3, 1e-7)
