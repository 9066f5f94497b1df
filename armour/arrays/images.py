"""Inputs seen as images, whatever their rank: what attacks that work on windows of pixels share."""

from .standard import Array


def image_shape(x: Array) -> tuple[int, int, int]:
    """`(channels, height, width)` of one sample: the last two axes are the picture, a flat input is one row of it."""
    shape = tuple(x.shape[1:])
    if len(shape) == 1:
        return 1, 1, shape[0]
    channels = 1
    for axis in shape[:-2]:
        channels *= axis
    return channels, shape[-2], shape[-1]


def as_images(x: Array) -> Array:
    """`x`, `(n, ...)`, as `(n, channels, height, width)`."""
    return x.reshape((len(x), *image_shape(x)))
