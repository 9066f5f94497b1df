"""Images and sounds that a training logs: what of them is kept, and as which pixels and samples.

A mistake is a sentence that the caller shows; whatever is handed over, nothing is raised into the training.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..storage.attachments import MEDIA, Attachment
from ..storage.percent import percent
from ..storage.records import Event, Json
from .configuration.sections import MediaSettings
from .recording.scalars import is_name

__all__ = ["Channels", "MediaLog"]

#: Which axis of an image has its channels.
Channels: TypeAlias = Literal["first", "last"]
#: Gray, red-green-blue, and that with opacity.
_COLOURS: Final = (1, 3, 4)
#: How values that are not finite are painted.
_MAGENTA: Final = (255, 0, 255)
_MOST_AUDIO_CHANNELS: Final = 8
#: Characters of a caption; our choice.
_LONGEST: Final = 500
#: Frames a second that browsers play.
_RATES: Final = (3000, 768_000)


class MediaLog:
    """Decides what is kept, and makes it events.

    Of each name, the first steps are all kept, then every second, every fourth and so on: their number grows with the
    logarithm of the training's length, nothing is removed later, and the newest step is never far.
    """

    def __init__(self, settings: MediaSettings) -> None:
        self._settings = settings
        self._steps: dict[str, tuple[int, tuple[int, int], int]] = {}  # by name: steps so far, the last, how many in it
        self._bytes = 0

    def images(
        self, name: str, value: object, place: tuple[int, int], caption: str, channels: Channels | None
    ) -> tuple[list[Event], list[str]]:
        """Return the events of these images and a sentence for each that is left out."""
        if not is_name(name):
            return [], [_no_name("an image", name)]
        if channels not in (None, "first", "last"):
            return [], [f"image {name!r}: channels must be 'first' or 'last', got {channels!r}; it is left out"]
        events: list[Event] = []
        if not self._opens(name, place):
            return [], []
        try:
            for image in _each_image(value, channels):
                self._check(name, image.size)
                pixels, note = _pixels(image)
                self._add(events, name, place, Attachment(pixels), (("caption", caption), ("note", note)))
        except _LeftOut as error:
            return events, [f"image {name!r} {error}; it is left out"]
        return events, []

    def audio(
        self, name: str, value: object, place: tuple[int, int], rate: int, caption: str
    ) -> tuple[list[Event], list[str]]:
        """Return the event of this sound, or a sentence why it is left out."""
        if not is_name(name):
            return [], [_no_name("a sound", name)]
        if isinstance(rate, bool) or not isinstance(rate, int | np.integer) or not _RATES[0] <= rate <= _RATES[1]:
            words = f"must have a whole rate of {_RATES[0]} to {_RATES[1]} frames a second, got {rate!r}"
            return [], [f"sound {name!r} {words}; it is left out"]
        events: list[Event] = []
        if not self._opens(name, place):
            return [], []
        try:
            samples, note = _samples(_array(value))
            seconds = len(samples) / rate
            more = (("caption", caption), ("note", note), ("seconds", seconds))
            self._add(events, name, place, Attachment(samples, int(rate)), more)
        except _LeftOut as error:
            return events, [f"sound {name!r} {error}; it is left out"]
        return events, []

    def file(self, name: str, content: bytes, kind: str, step: int, caption: str = "") -> list[Event]:
        """Return the event of a file of another tool, within the same bounds; none if it is not kept."""
        events: list[Event] = []
        if not self._opens(name, (step, 0)):
            return []
        try:
            self._add(events, name, (step, 0), Attachment(content), (("type", kind), ("caption", caption)))
        except _LeftOut:
            return []
        return events

    def _opens(self, name: str, place: tuple[int, int]) -> bool:
        """Count the step of a name; return whether it is kept."""
        count, last, index = self._steps.get(name, (0, (-1, -1), 0))
        if place != last:
            count, index = count + 1, 0
        self._steps[name] = (count, place, index)
        return is_kept(count - 1, self._settings.steps)

    def _add(
        self,
        events: list[Event],
        name: str,
        place: tuple[int, int],
        attachment: Attachment,
        more: Sequence[tuple[str, Json]],
    ) -> None:
        """Append the event of a file.

        Raises:
            _LeftOut: It is beyond one of the bounds.
        """
        self._check(name, attachment.nbytes)
        count, _, index = self._steps[name]
        self._steps[name] = (count, place, index + 1)
        self._bytes += attachment.nbytes
        data: dict[str, Json] = {"name": name, "index": index, "digest": attachment.digest()}
        data["type"] = "audio/wav" if attachment.rate else "image/png"
        data.update((key, value[:_LONGEST] if isinstance(value, str) else value) for key, value in more if value)
        if not isinstance(attachment.content, bytes) and not attachment.rate:
            data["height"], data["width"] = attachment.content.shape[:2]
        events.append(Event(MEDIA, place[0], "", place[1], data, attachment))

    def _check(self, name: str, size: int) -> None:
        """Raise `_LeftOut` if one more file of this name, of so many bytes, is beyond one of the bounds."""
        settings = self._settings
        if self._steps[name][2] >= settings.per_step:
            raise _LeftOut(
                f"has more than {settings.per_step} files at one step; log fewer, or set `media: {{per_step: ...}}`"
            )
        if size > settings.largest:
            raise _LeftOut(
                f"takes {size:,} bytes, at most {settings.largest:,} are kept; "
                f"make it smaller, or set `media: {{largest: ...}}`"
            )
        if self._bytes + size > settings.total:
            raise _LeftOut(
                f"and what follows would take more than {settings.total:,} bytes; log less, or set "
                f"`media: {{total: ...}}`"
            )


def is_kept(count: int, whole: int) -> bool:
    """Return whether the step after `count` others is kept, of which the first `whole` are."""
    return count < whole or count % (1 << (count // whole).bit_length()) == 0


class _LeftOut(ValueError):
    """What was handed over is not kept; the words continue `image 'name'`."""


def _no_name(kind: str, name: object) -> str:
    return f"the name of {kind} must be a non-empty string that can be encoded, got {name!r}; it is left out"


def _each_image(value: object, channels: Channels | None) -> Iterator[NDArray[Any]]:
    """Yield the images of a value `(height, width, channels)`.

    Raises:
        _LeftOut: It is none.
    """
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float | list | tuple):
        for image in value:
            yield from _each_image(image, channels)
        return
    array = _array(value)
    prefers_first = hasattr(value, "detach")
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.ndim in (3, 4):
        array = _channels_last(array, channels or _place_of_channels(array.shape[-3:], first=prefers_first))
    if array.ndim not in (3, 4) or array.shape[-1] not in _COLOURS:
        raise _LeftOut(_shapes(array.shape))
    if not array.size:
        raise _LeftOut(f"must have pixels, got shape {array.shape}")
    yield from array if array.ndim == 4 else [array]


def _shapes(shape: tuple[int, ...]) -> str:
    hint = "; for a batch of gray images add an axis of one channel" if len(shape) == 3 else ""
    return (
        "expects shape (height, width), or with an axis of 1, 3 or 4 channels first or last, or a batch of these, "
        f"got {shape}{hint}"
    )


def _place_of_channels(shape: tuple[int, ...], *, first: bool) -> Channels:
    fits = {"first": shape[0] in _COLOURS, "last": shape[-1] in _COLOURS}
    if first:
        return "first" if fits["first"] or not fits["last"] else "last"
    return "last" if fits["last"] or not fits["first"] else "first"


def _channels_last(array: NDArray[Any], channels: Channels) -> NDArray[Any]:
    return np.moveaxis(array, -3, -1) if channels == "first" else array


def _array(value: Any) -> NDArray[Any]:  # Any: of whatever framework
    """Return the values of an array, a tensor or a PIL image on the host.

    Raises:
        _LeftOut: They are no real numbers.
    """
    try:
        if type(value).__module__.startswith("PIL.") and hasattr(value, "convert"):
            modes = ("L", "RGB", "RGBA")
            value = value if getattr(value, "mode", "") in modes else value.convert("RGB")
        elif hasattr(value, "detach") and hasattr(value, "is_floating_point"):  # torch: NumPy has no bfloat16
            value = value.detach().cpu()
            value = value.float() if value.is_floating_point() else value
        for name in ("asnumpy", "numpy"):
            if callable(read := getattr(value, name, None)):
                value = read()
                break
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    except Exception as error:
        raise _LeftOut(f"cannot be read as an array: {type(error).__name__}: {error}") from error
    if array.dtype.kind not in "buif":
        raise _LeftOut(f"must hold real numbers, got {type(value).__name__} of dtype {array.dtype}")
    return array


def _pixels(array: NDArray[Any]) -> tuple[NDArray[np.uint8], str]:
    """Return a copy of the pixels as bytes, and a note on what could not be drawn as it is."""
    if array.dtype.kind in "bu" and array.dtype.itemsize == 1:
        return array.astype(np.uint8) * np.uint8(255 if array.dtype.kind == "b" else 1), ""
    highest = 255 if array.dtype.kind in "ui" else 1
    finite = np.isfinite(array)
    outside = int(np.count_nonzero(finite & ((array < 0) | (array > highest))))
    safe = np.where(finite, array, 0)
    pixels = np.rint(np.clip(safe, 0, highest) * (255 / highest)).astype(np.uint8)
    notes = [f"{percent(outside / array.size)} of the values outside 0 to {highest}: clipped"] if outside else []
    if lost := int(array.size - np.count_nonzero(finite)):
        pixels = np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels.copy()
        pixels[~finite.all(axis=-1), :3] = _MAGENTA
        notes.append(f"{lost:,} values not finite: magenta")
    return pixels, "; ".join(notes)


def _samples(array: NDArray[Any]) -> tuple[NDArray[np.int16], str]:
    """Return a copy of the samples `(frames, channels)`, and a note on what could not be kept as it is.

    Raises:
        _LeftOut: It is no sound.
    """
    table = array[:, None] if array.ndim == 1 else array
    if table.ndim == 2 and table.shape[1] > _MOST_AUDIO_CHANNELS >= table.shape[0]:
        table = table.T
    if table.ndim != 2 or not table.size or table.shape[1] > _MOST_AUDIO_CHANNELS:
        raise _LeftOut(
            f"expects samples (frames), (frames, channels) or (channels, frames) of up to {_MOST_AUDIO_CHANNELS} "
            f"channels, got shape {array.shape}"
        )
    if table.dtype == np.int16:
        return table.copy(), ""
    if table.dtype.kind != "f":
        raise _LeftOut(f"expects floats from -1 to 1, or int16, got {array.dtype}")
    finite = np.isfinite(table)
    outside = int(np.count_nonzero(finite & (np.abs(table) > 1)))
    samples = np.rint(np.clip(np.where(finite, table, 0), -1, 1) * (2**15 - 1))
    notes = [f"{percent(outside / table.size)} of the samples outside -1 to 1: clipped"] if outside else []
    if lost := int(table.size - np.count_nonzero(finite)):
        notes.append(f"{lost:,} samples not finite: silent")
    return samples.astype(np.int16), "; ".join(notes)
