"""When: at which steps a quantity is due; what is not due is not computed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps at which something is due: every so many, the first so many, and those inside windows.

    Args:
        every: Due at steps 0, every, 2 every, ...; 0 means never by this rule.
        first: Due at each of the first so many steps, whatever `every` says.
        windows: Pairs (first, last), both included, in which every step is due.
    """

    every: int = 1
    first: int = 0
    windows: tuple[tuple[int, int], ...] = ()

    def is_due(self, step: int) -> bool:
        """Whether the quantity is recorded at this step."""
        if self.every and step % self.every == 0:
            return True
        return step < self.first or any(first <= step <= last for first, last in self.windows)

    @property
    def is_ever_due(self) -> bool:
        """Whether there is any step at which it is due."""
        return bool(self.every or self.first or self.windows)


#: Never due.
NEVER = Schedule(every=0)
