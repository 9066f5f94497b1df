"""No input makes a reader raise anything but a refusal of ours, last, or fill the memory.

The usual run takes a sample of every reader; `make test-all` takes 10,000 inputs of each, in parts.
"""

import os
from typing import Final

import pytest

from tests.fuzzing.fuzz import LIMIT_S, fuzz
from tests.fuzzing.readers import READERS

_COMPLETE: Final = bool(os.environ.get("MINDSCOPE_TEST_ALL"))
#: Inputs of the usual run: 200, and fewer where one input costs up to a tenth of a second.
_SAMPLE: Final = {"command": 50, "msprobe": 60, "csv": 100, "parquet": 100, "run_file": 25}
_PART: Final = 250
_PARTS: Final = 40 if _COMPLETE else 1


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_input_is_read_or_refused_in_words_of_ours(reader, part):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    report = fuzz(reader, _PART if _COMPLETE else _SAMPLE.get(reader.name, 200), seed=part)
    assert not report.failures, report.words()
    assert report.read > 0, f"no input of {reader.name} was read, so the valid ones are not valid"
    assert report.slowest_s < LIMIT_S
    assert report.grown_bytes < 2**30


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_the_valid_inputs_are_read(reader, tmp_path):
    valid = tmp_path / "valid"
    valid.mkdir()
    for number, data in enumerate(reader.seeds(valid)):
        folder = tmp_path / str(number)
        folder.mkdir()
        reader.read(data, folder)
