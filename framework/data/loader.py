"""A place in the data that can be saved: which epoch, and how many of its items were consumed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .dataset import Dataset, Item


@dataclass(frozen=True, slots=True)
class LoaderState:
    """Where a loader stands: the number of the epoch and the items of it that were handed out."""

    epoch: int = 0
    position: int = 0


class Loader:
    """Epochs one after the other, resumable at any item.

    Every `iter()` goes on where the last one stopped: to the end of the current epoch, then the next one is current.

    Example:
        >>> loader = Loader(ArrayDataset(np.arange(4)).batch(2))
        >>> next(iter(loader)), loader.state
        ((array([0, 1]),), LoaderState(epoch=0, position=1))
    """

    __slots__ = ("_dataset", "state")

    def __init__(self, dataset: Dataset, state: LoaderState | None = None) -> None:
        self._dataset = dataset
        self.state = state or LoaderState()

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Item]:
        number = self.state.epoch
        for item in self._dataset.epoch(number, start=self.state.position):
            self.state = LoaderState(number, self.state.position + 1)
            yield item
        self.state = LoaderState(number + 1, 0)

    def state_dict(self) -> dict[str, int]:
        """Return what a resumed loader needs."""
        return {"epoch": self.state.epoch, "position": self.state.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Make the next item the one that would have followed when the state was taken.

        Raises:
            ValueError: A number is missing or negative.
        """
        epoch, position = state.get("epoch", -1), state.get("position", -1)
        if min(epoch, position) < 0:
            raise ValueError(f"Loader expects a state with epoch and position of 0 or more, got {dict(state)}")
        self.state = LoaderState(int(epoch), int(position))

    def forever(self) -> Iterator[Item]:
        """Return items without end, epoch after epoch.

        Raises:
            ValueError: An epoch has no item at all (a batch larger than the data, with `drop_remainder`).
        """
        while True:
            fresh = self.state.position == 0
            count = 0
            for item in self:
                count += 1
                yield item
            if fresh and count == 0:
                raise ValueError("the dataset has no item in an epoch; is the batch larger than the data?")
