"""The judge of the fuzzing itself: what it takes for a refusal, for a failure, and that a seed repeats its inputs."""

import pytest
from mindscope.probe import ConfigError

from tests.fuzzing import fuzz as fuzzing
from tests.fuzzing.fuzz import Reader, fuzz


def _reader(read) -> Reader:
    return Reader("made", lambda _folder: [b"valid", b"also valid"], read)


def _raising(error):
    def read(data, _folder):
        if data != b"valid":
            raise error

    return read


def test_an_error_of_ours_with_words_is_a_refusal():
    report = fuzz(_reader(_raising(ConfigError("expected a, got b; write a"))), 30, seed=0)
    assert (report.inputs, report.failures) == (30, [])
    assert report.refused + report.read == 30
    assert report.refused > 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "builtins.KeyError"),
        (RecursionError("deep"), "RecursionError"),
        (SystemExit(70), "SystemExit"),
        (ConfigError(" "), "says nothing"),
    ],
)
def test_any_other_error_is_a_failure_with_its_input(error, words):
    report = fuzz(_reader(_raising(error)), 30, seed=0)
    assert report.failures
    assert words in report.failures[0].words
    assert repr(report.failures[0].data[:20])[:-1] in report.words()


def test_an_input_that_lasts_too_long_and_one_that_fills_the_memory_are_failures(monkeypatch):
    monkeypatch.setattr(fuzzing, "LIMIT_S", 0.05)
    monkeypatch.setattr(fuzzing, "SPARE_BYTES", 2**26)

    def read(data, _folder):
        if data == b"valid":
            return
        if len(data) % 2:
            while True:
                pass
        bytearray(2**28)

    report = fuzz(_reader(read), 12, seed=0)
    kinds = {failure.words.partition(":")[0] for failure in report.failures}
    assert kinds == {"tests.fuzzing.limits.LastedTooLong", "builtins.MemoryError"}


def test_a_seed_repeats_its_inputs_and_another_has_others():
    def inputs(seed):
        found = []
        fuzz(_reader(lambda data, _folder: found.append(data)), 40, seed)
        return found

    assert inputs(3) == inputs(3) != inputs(4)
