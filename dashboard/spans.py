"""A stretch of steps as it stands in an address: `120-480`, empty for all of them."""

from .address import Key

Span = tuple[int, int]

#: The stretch of steps that the pictures of a page show.
SPAN = Key("steps", pattern=r"\d{1,18}-\d{1,18}", example="120-480")


def span_of(text: str | None) -> Span | None:
    """First and last step of the stretch, None for all steps or for what is none."""
    first, _, last = (text or "").partition("-")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        return None
    return min(int(first), int(last)), max(int(first), int(last))
