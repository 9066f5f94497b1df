import sys

import numpy as np
import pytest
from mindscope.cli.demo.demo_data import digits, manual, shuffled_batches, windows
from mindscope.cli.failures import WrongUse


def test_digits_are_split_without_overlap_and_scaled_to_one() -> None:
    found = digits()
    assert found.images.shape == (1400, 1, 8, 8)
    assert found.held_out_images.shape == (397, 1, 8, 8)
    assert found.images.dtype == np.float32
    assert (found.images.min(), found.images.max()) == (0.0, 1.0)
    assert set(found.labels) == set(range(10))


def test_digits_of_one_seed_are_the_same_and_of_two_are_not() -> None:
    assert np.array_equal(digits(3).labels, digits(3).labels)
    assert not np.array_equal(digits(3).labels, digits(4).labels)


def test_without_scikit_learn_the_digits_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(WrongUse, match=r"pip install 'mindscope\[demo\]'"):
        digits()


def test_the_manual_is_long_and_english() -> None:
    text = manual()
    assert text.dtype == np.uint8
    assert len(text) > 300_000
    assert b'The "if" statement' in text.tobytes()


def test_an_epoch_of_batches_holds_every_image_once() -> None:
    images = np.arange(10, dtype=np.float32).reshape(10, 1, 1, 1)
    labels = np.arange(10)
    batches = shuffled_batches(images, labels, size=5, seed=1)
    first, second = next(batches), next(batches)
    assert sorted(np.concatenate([first[1], second[1]])) == list(range(10))
    assert np.array_equal(first[0].ravel(), first[1])
    assert not np.array_equal(np.concatenate([first[1], second[1]]), labels)


def test_targets_are_the_inputs_one_byte_later() -> None:
    text = np.arange(50, dtype=np.uint8)
    inputs, targets = next(windows(text, context=8, size=4, seed=0))
    assert inputs.shape == targets.shape == (4, 8)
    assert np.array_equal(targets, inputs + 1)


def test_windows_reach_both_ends_of_the_text() -> None:
    text = np.arange(10, dtype=np.uint8)
    inputs, targets = next(windows(text, context=8, size=64, seed=0))
    assert (inputs.min(), targets.max()) == (0, 9)
