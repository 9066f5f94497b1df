"""Inputs as PNG: read back by a decoder of another hand."""

import base64
import io

import numpy as np
import pytest
from mindscope.dashboard.pages.robustness.attack_panels import bitmap, magnified

Image = pytest.importorskip("PIL.Image", reason="no second decoder of PNG: Pillow is not installed")


@pytest.mark.parametrize("channels", [1, 3])
def test_another_decoder_reads_the_same_pixels(channels):
    pixels = np.random.default_rng(0).random((5, 7, channels))
    raw = base64.b64decode(bitmap(pixels).partition(",")[2])
    read = np.asarray(Image.open(io.BytesIO(raw)))
    assert np.array_equal(read.reshape(pixels.shape), np.round(pixels * 255).astype(np.uint8))


def test_what_lies_beyond_the_range_is_cut_and_nan_is_black():
    raw = base64.b64decode(bitmap(np.array([[[2.0], [-1.0], [np.nan]]])).partition(",")[2])
    assert np.asarray(Image.open(io.BytesIO(raw))).tolist() == [[255, 0, 0]]


def test_a_change_is_shown_around_grey_as_strong_as_it_can_be():
    shown, times = magnified(np.array([[[0.01], [-0.02], [0.0]]]))
    assert shown.ravel() == pytest.approx([0.75, 0.0, 0.5])
    assert times == pytest.approx(25)
    assert magnified(np.zeros((2, 2, 1)))[1] == 1.0
