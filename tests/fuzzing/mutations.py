"""Mutations of valid files: bytes, numbers, words and lines flipped, cut, doubled or exchanged, from a seed."""

import random
from collections.abc import Callable, Sequence
from typing import Final

#: Values at which lengths, counts and offsets go wrong.
_EDGES: Final = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
#: Words at which readers of text go wrong.
WORDS: Final = (
    *("", " ", "\0", "\ufeff", "\ud7ff", "é", "𝟙", "٣", "a" * 5000, "../" * 8, "'", '"', "#", "\\", "%s%n", "{}", "[]"),
    *("nan", "inf", "-inf", "1e999", "-0.0", "0x10", "1_000", "9" * 400, "-1", str(2**63), str(-(2**63) - 1), "1.5"),
    *("null", "true", "None", "!!int ''", "!!timestamp x", "!!binary x", "!!set {}", "!!python/none", "&a", "*a", "<<"),
    *("[" * 300, "{" * 300, "2026-01-01", "12:30:45", "~", "---", "...", "? ", "- ", ": ", ","),
)


def mutated(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the seeds after one to six mutations."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        draw.choice(_MUTATIONS)(draw, data, seeds)
    return bytes(data)


def mutated_text(draw: random.Random, text: str) -> str:
    """Return the text after one to four mutations of its words, numbers and lines."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        text = draw.choice(_TEXT_MUTATIONS)(draw, text)
    return text


def mutated_texts(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a seed that is text, mutated mostly as text and sometimes as bytes."""
    if draw.random() < 0.2:
        return mutated(draw, seeds)
    return mutated_text(draw, draw.choice(seeds).decode()).encode("utf-8", "surrogatepass")


def _place(draw: random.Random, data: bytearray) -> int:
    return draw.randrange(len(data) + 1)


def _flip_bit(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set_byte(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] = draw.randrange(256)


def _set_number(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    width = draw.choice((1, 2, 4, 8))
    number = draw.choice(_EDGES) & ((1 << 8 * width) - 1)
    place = _place(draw, data)
    data[place : place + width] = number.to_bytes(width, draw.choice(("little", "big")))


def _cut_short(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    del data[_place(draw, data) :]


def _cut_out(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    place = _place(draw, data)
    del data[place : place + draw.choice((1, 4, 16, 256))]


def _insert(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    place = _place(draw, data)
    data[place:place] = draw.randbytes(draw.choice((1, 4, 16, 256)))


def _double(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = _place(draw, data)
    part = data[start : start + draw.choice((1, 8, 64, 1024))]
    place = _place(draw, data)
    data[place:place] = part


def _take_of_another(draw: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = draw.choice(seeds)
    start = draw.randrange(len(other) + 1)
    length = draw.choice((4, 32, 512))
    place = _place(draw, data)
    data[place : place + length] = other[start : start + length]


def _clear(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    place = _place(draw, data)
    length = min(draw.choice((4, 64, 1024)), len(data) - place)
    data[place : place + length] = bytes((draw.choice((0, 255)),)) * length


def _insert_word(draw: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    place = _place(draw, data)
    data[place:place] = draw.choice(WORDS).encode()


_MUTATIONS: Final[tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...]] = (
    _flip_bit,
    _set_byte,
    _set_number,
    _cut_short,
    _cut_out,
    _insert,
    _double,
    _take_of_another,
    _clear,
    _insert_word,
)


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where the words of a text begin and end; what stands between them is a word each."""
    spans, start = [], 0
    for place, letter in enumerate(text):
        if not (letter.isalnum() or letter in "._-+"):
            if start < place:
                spans.append((start, place))
            spans.append((place, place + 1))
            start = place + 1
    return [*spans, (start, len(text))] if start < len(text) else spans


def _exchange_word(draw: random.Random, text: str) -> str:
    spans = _spans(text)
    if not spans:
        return draw.choice(WORDS)
    start, end = draw.choice(spans)
    return text[:start] + draw.choice(WORDS) + text[end:]


def _exchange_by_own_word(draw: random.Random, text: str) -> str:
    spans = _spans(text)
    if not spans:
        return text
    (start, end), (left, right) = draw.choice(spans), draw.choice(spans)
    return text[:start] + text[left:right] + text[end:]


def _add_word(draw: random.Random, text: str) -> str:
    place = draw.randrange(len(text) + 1)
    return text[:place] + draw.choice(WORDS) + text[place:]


def _drop_line(draw: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        del lines[draw.randrange(len(lines))]
    return "".join(lines)


def _double_line(draw: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        lines.insert(draw.randrange(len(lines) + 1), draw.choice(lines))
    return "".join(lines)


def _cut_text(draw: random.Random, text: str) -> str:
    start = draw.randrange(len(text) + 1)
    return text[:start] + text[start + draw.choice((1, 3, 10, 100000)) :]


_TEXT_MUTATIONS: Final[tuple[Callable[[random.Random, str], str], ...]] = (
    _exchange_word,
    _exchange_word,
    _exchange_by_own_word,
    _add_word,
    _drop_line,
    _double_line,
    _cut_text,
)
