"""How a window slides over the axes of an image: steps, padding, and how many places it takes."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ..errors import ShapeError
from ..shape import Shape

#: How the axes of an image are called, by their number.
AXIS_NAMES = {1: "w", 2: "h, w", 3: "d, h, w"}

#: Elements added before and after each axis.
Sides: TypeAlias = tuple[tuple[int, int], ...]

#: A number for every axis, or one for each.
PerAxis: TypeAlias = int | Sequence[int]

#: One number, one for each axis, a pair (before, after) for each axis, or how to choose.
Padding: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]] | Literal["valid", "same", "same_lower"]


def per_axis(value: PerAxis, axes: int, name: str = "window") -> Shape:
    """The numbers, one for each of `axes` axes."""
    if isinstance(value, int):
        return (value,) * axes
    found = tuple(int(part) for part in value)
    if len(found) != axes:
        raise ShapeError(f"{name} over {axes} axes expects one number or {axes}, got {found}")
    return found


def sides_of(padding: Padding, lengths: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Sides:
    """The padding before and after each axis.

    `same` leaves `ceil(length / stride)` windows; what cannot be halved is added after the axis, with `same_lower`
    before it.
    """
    axes = len(kernel)
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * axes
        if padding not in ("same", "same_lower"):
            raise ShapeError(f"padding expects numbers, 'valid', 'same' or 'same_lower', got {padding!r}")
        found = []
        for length, size, step, spread in zip(lengths, kernel, stride, dilation, strict=True):
            total = max(0, (-(-length // step) - 1) * step + spread * (size - 1) + 1 - length)
            less, more = total // 2, total - total // 2
            found.append((less, more) if padding == "same" else (more, less))
        return tuple(found)
    if isinstance(padding, int):
        return ((padding, padding),) * axes
    if len(padding) != axes:
        raise ShapeError(f"padding over {axes} axes expects one entry an axis, got {tuple(padding)}")
    return tuple((part, part) if isinstance(part, int) else (int(part[0]), int(part[1])) for part in padding)


def window_count(length: int, kernel: int, stride: int, sides: tuple[int, int], dilation: int, ceil: bool) -> int:
    """How many windows fit along an axis; with `ceil` also one that starts inside the axis and leaves it at the end."""
    reach = dilation * (kernel - 1) + 1
    room = length + sides[0] + sides[1] - reach
    if room < 0:
        raise ShapeError(
            f"a window of {kernel} (dilation {dilation}) does not fit an axis of {length} with padding {sides}"
        )
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count if (count - 1) * stride < length + sides[0] else count - 1


def transposed_length(length: int, kernel: int, stride: int, sides: tuple[int, int], dilation: int, extra: int) -> int:
    """The length that a transposed window makes out of `length` places; `extra` elements are added after the axis."""
    return stride * (length - 1) + dilation * (kernel - 1) + 1 - sides[0] - sides[1] + extra
