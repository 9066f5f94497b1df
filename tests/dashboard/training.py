"""A training in another thread that is watched, waits and goes on as it is told."""

import threading
import time
from collections.abc import Callable
from typing import Self

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.storage import Store
from mindscope.storage.control_channel import TrainingState, send, state_of


class Training(threading.Thread):
    """Steps until the block is left."""

    def __init__(self, store: Store, **options: object) -> None:
        super().__init__(daemon=True)
        self.model = nn.Dense(4, 2, key=Key(0)).set_train()
        self.optimizer = nn.SGD(self.model.trainable_params(), 1e-3)
        config = {"subjects": ["loss", "weight", "gradient"], **options}
        self.monitor = ms.watch(self.model, self.optimizer, store=store, run="live", config=config)
        self.mailbox = store.control_channel(self.monitor.run.id)
        self.over = threading.Event()

    def run(self) -> None:
        x = Tensor(np.ones((2, 4), np.float32))
        with self.monitor:
            while not self.over.wait(0.002):
                ops.square(self.model(x)).mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        while self.is_alive():
            send(self.mailbox, "continue")
            self.join(0.2)

    def once(self, holds: Callable[[TrainingState], bool]) -> TrainingState:
        """Where the training is, as soon as this holds of it."""
        return once(lambda: (state := state_of(self.mailbox), holds(state)))


def once(ask: Callable[[], tuple[object, bool]]):
    """The first of the two, as soon as the second is true."""
    deadline = time.monotonic() + 20
    while not (found := ask())[1]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0]
