"""The last words of a rank whose records travel through a broker: a collector writes them beside the run."""

import os
import secrets
from collections.abc import Iterable

from ..last_words import LastWord
from ..process import identity
from ..run_info import Run
from .messages import Message, Said, Sender, encode_message, frames_of
from .transport import Publisher

__all__ = ["StreamWords"]


class StreamWords:
    """Publishes the words of one rank; no rank reads what another has said.

    Args:
        publisher: Used by the heartbeat alone.
    """

    interval_s = 2.0

    def __init__(self, run: Run, rank: int, publisher: Publisher) -> None:
        self._publisher = publisher
        self._sender = Sender(run.id, rank, run.name, identity(), secrets.token_hex(8))
        self._number, self._pid = 0, os.getpid()

    def write(self, rank: int, text: str) -> None:
        """Publish the word; one that the broker does not take is left out, since the next one is newer.

        Raises:
            StoreUnavailable: The broker does not take it now.
        """
        message = Message(self._sender, self._number, 0, Said(text))
        self._number += 1
        frames = frames_of(encode_message(message), self._publisher.frame_bytes)
        self._publisher.publish(message.key, [frame.to_bytes() for frame in frames])

    def read(self, ranks: Iterable[int] | None = None) -> dict[int, LastWord]:
        """Return nothing: words are read where they are collected."""
        return {}

    def close(self) -> None:
        """Close the connection, unless this is a fork of the process that has it."""
        if os.getpid() == self._pid:
            self._publisher.close()
