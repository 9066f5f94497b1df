"""A dataset whose next items a thread prepares."""

from collections.abc import Iterator

from .dataset import Dataset, Item, stage
from .prefetch import ahead


@stage("prefetch")
class Prefetched(Dataset):
    """The same items, prepared ahead; what is read ahead does not count as consumed."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: Dataset, count: int) -> None:
        if count < 1:
            raise ValueError(f"prefetch expects a count of 1 item or more, got {count}")
        self._source, self._count = source, count

    def __len__(self) -> int:
        return len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """The items of that epoch, from `start` on."""
        return ahead(self._source.epoch(number, start=start), self._count)
