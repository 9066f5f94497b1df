"""Every natural transform: within bounds, stronger with severity, repeatable; and a few in closed form."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput, UnknownAttack
from mindscope.armour.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from scipy.ndimage import gaussian_filter

NOISE = np.random.default_rng(0).uniform(0, 1, (40, 1, 12, 12))
IMAGES = np.clip(0.5 + 4 * (gaussian_filter(NOISE, (0, 0, 2, 2)) - 0.5), 0, 1).astype(np.float32)  # of broad shapes
each = pytest.mark.parametrize("name", sorted(CORRUPTIONS))


def test_there_are_fifteen():
    assert len(CORRUPTIONS) == 15


@each
def test_images_stay_images_and_change_more_with_severity(name):
    changes = []
    for severity in SEVERITIES:
        found = corrupt(IMAGES, name, severity, seed=3)
        assert found.shape == IMAGES.shape
        assert found.dtype == np.float32
        assert found.min() >= 0
        assert found.max() <= 1
        np.testing.assert_array_equal(found, corrupt(IMAGES, name, severity, seed=3))
        changes.append(np.abs(found - IMAGES).mean())
    assert changes[0] > 0
    assert changes[-1] > changes[0]
    assert (np.diff(changes) > -0.02).all()


@each
def test_a_grey_image_stays_grey_without_noise_and_light(name):
    flat = np.full((2, 3, 9, 9), 0.5)
    found = corrupt(flat, name, 3)
    if name in ("gaussian_blur", "motion_blur", "rotation", "scaling", "shear", "translation", "contrast", "occlusion"):
        np.testing.assert_allclose(found, 0.5, atol=1e-12)
    if name == "brightness":
        np.testing.assert_allclose(found, 0.7)


@each
@pytest.mark.parametrize(
    "bounds",
    [(0.0, 255.0), (-2.5, 1.5), (np.full((1, 1, 1), -2.0), np.full((1, 1, 1), 3.0))],
    ids=["bytes", "standardised", "channels"],
)
def test_any_bounds_are_black_and_white(name, bounds):
    low, high = (np.float32(end) for end in bounds)
    scaled = np.clip(IMAGES[:4] * (high - low) + low, low, high)
    found = corrupt(scaled, name, 2, seed=3, bounds=bounds)
    expected = corrupt(IMAGES[:4], name, 2, seed=3) * (high - low) + low
    assert found.dtype == np.float32
    assert ((found >= low) & (found <= high)).all()
    if name not in ("shot_noise", "quantization"):  # which jump where a number is rounded
        np.testing.assert_allclose(found, expected, atol=1e-4 * float(np.max(high - low)))


def test_bad_input_is_named():
    with pytest.raises(UnknownAttack, match=r"no corruption 'fogg'.*fog"):
        corrupt(IMAGES, "fogg")
    with pytest.raises(InvalidInput, match="severity expects 1 to 5, got 6"):
        corrupt(IMAGES, "fog", 6)
    with pytest.raises(InvalidInput, match=r"within \[0, 1\]"):
        corrupt(IMAGES * 2, "fog")
    with pytest.raises(InvalidInput, match=r"within \[0, 255\], got .* name what is black and white with bounds="):
        corrupt(IMAGES - 1, "fog", bounds=(0, 255))
    with pytest.raises(InvalidInput, match="floating images"):
        corrupt(IMAGES[0, 0], "fog")
