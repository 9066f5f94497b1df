"""A board in the key-value store that connects the processes: every rank pins its message up, rank 0 reads them.

No collective is called and nobody waits for anybody: what is not there yet is looked for again at the next step.
"""

import logging
from itertools import count
from typing import Any, Final

_log = logging.getLogger(__name__)
_boards = count()
#: Steps that rank 0 looks for a message; a rank that is silent for longer is told as silent. Our choice.
_PATIENCE: Final = 20


class Board:
    """One training's board; must be made equally often, and in the same order, by every rank.

    Args:
        store: What torch.distributed connects its processes by, or anything with `set`, `get`, `check`, `delete_key`.
        ranks: How many pin messages up.
    """

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self._store, self._rank, self._ranks = store, rank, ranks
        self._name = f"mindscope/board/{next(_boards)}"
        self._waiting: dict[int, int] = {}
        self._is_gone = False

    def post(self, step: int, message: bytes) -> None:
        """Nothing; the others can read the message of this rank."""
        if not self._is_gone and self._rank < self._ranks:
            self._try(self._store.set, self._key(step, self._rank), message)
            if self._rank == 0:
                self._waiting[step] = _PATIENCE

    def read(self) -> dict[int, list[bytes | None]]:
        """By step, the messages of all ranks, of those steps of which all are there or some never came; once each."""
        found: dict[int, list[bytes | None]] = {}
        for step in [*self._waiting]:
            self._waiting[step] -= 1
            keys = [self._key(step, rank) for rank in range(self._ranks)]
            if self._try(self._store.check, keys) or self._waiting[step] < 0:
                del self._waiting[step]
                found[step] = [self._taken(key) for key in keys]
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether messages of others are still to come."""
        return bool(self._waiting) and not self._is_gone

    def hurry(self) -> None:
        """Nothing; the next look gives out what is there."""
        self._waiting = dict.fromkeys(self._waiting, 0)

    def _taken(self, key: str) -> bytes | None:
        if not self._try(self._store.check, [key]):
            return None
        message = self._try(self._store.get, key)
        self._try(self._store.delete_key, key)
        return None if message is None else bytes(message)

    def _try(self, work: Any, *arguments: Any) -> Any:  # Any: the store's own methods
        """What the store answers; None once the processes have parted."""
        if self._is_gone:
            return None
        try:
            return work(*arguments)
        except RuntimeError as error:  # torch's DistError and its kin
            self._is_gone = True
            _log.warning("ranks are not compared any more, the store between them is gone: %s", error)
            return None

    def _key(self, step: int, rank: int) -> str:
        return f"{self._name}/{step}/{rank}"
