"""How many samples pass through convolutions together on the CPU, where large parts are slower than small ones."""

from typing import Final

#: Our choice: with 500 pictures of 8 x 8 at once, memory goes back to the system and comes again in every pass, and
#: forward and backward take 1.3 times (torch) and 1.4 times (engine) as long a picture as with 100 to 200 of them.
_LARGEST: Final = 192


def part_size(samples: int) -> int:
    """The size of equal parts, none above the largest, for so many samples."""
    parts = max(-(-samples // _LARGEST), 1)
    return -(-samples // parts)
