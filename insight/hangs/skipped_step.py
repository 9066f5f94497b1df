"""Finds the rank that has left a whole step out, of which no collective tells: each was called as in every other step.

A `continue` on one rank's own data skips the forward, or the backward pass after it. The rank's next step then meets
this one of the others, and so on: all calls pair up, and only the end of the data, or the next call that is not of
every step, makes the others wait. But the rank has taken a batch more in the step that it left out, or has run the
forward twice for one backward pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...storage.last_words import LastWord, PassUse
from .activity import place

__all__ = ["SkippedStep", "skipped_step"]


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A step that one rank has left out.

    Args:
        use: The line that tells it.
        count: Batches or forward passes in this step.
    """

    rank: int
    step: int
    use: PassUse
    count: int

    @property
    def words(self) -> str:
        """What the rank has left out: a sentence that follows `rank 1`."""
        where = place(self.use.file, self.use.line)
        took = f"took {self.count} batches" if self.use.kind == "batch" else f"ran the forward {self.count} times"
        usual = f"{self.use.usual} a step as in all others and on the other ranks"
        return f"has left a step out: in step {self.step} it {took} at {where} before it stepped, not {usual}"


def skipped_step(words: Mapping[int, LastWord]) -> SkippedStep | None:
    """Return the step that one rank has left out; None where no rank has, or several have."""
    found = [skipped for rank in words for skipped in _of_rank(words, rank)]
    if len({skipped.rank for skipped in found}) != 1:
        return None
    newest = max(skipped.step for skipped in found)
    last = [skipped for skipped in found if skipped.step == newest]
    return next((skipped for skipped in last if skipped.use.kind == "forward"), last[0])


def _of_rank(words: Mapping[int, LastWord], rank: int) -> list[SkippedStep]:
    others = [word for other, word in words.items() if other != rank]
    return [
        SkippedStep(rank, step, use, count)
        for use in words[rank].passes
        for step, count in use.more
        if use.usual and others and all(_is_usual(word, use, step) for word in others)
    ]


def _is_usual(word: LastWord, use: PassUse, step: int) -> bool:
    """Return whether this other rank had reached the step, and took as many there as in all others."""
    theirs = next(
        (one for one in word.passes if (one.kind, one.file, one.line) == (use.kind, use.file, use.line)), None
    )
    return theirs is not None and theirs.usual == use.usual and step <= word.step and step not in dict(theirs.more)
