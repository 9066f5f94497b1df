"""How a send or a receive between two ranks is named: by both of its ends in the ring, by its distance in a series.

world:0->1          sends from rank 0 to rank 1, and the receives that they meet, as last words name them
world:0->1 tag 7    the same with a tag that the backend matches
world:any->1        receives of rank 1 from whoever sends
send/world:+1       the site of what each rank sends to the next one, so that the ranks of a pipeline have one name
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

__all__ = ["TRANSFERS", "Transfer", "is_send", "offset_of", "transfer_of", "transfer_site"]

#: Operations between two ranks.
TRANSFERS: Final = frozenset({"send", "recv", "isend", "irecv"})
_ENDS: Final = re.compile(r"^(?P<group>.+):(?P<source>\d+|any)->(?P<target>\d+)(?: tag (?P<tag>-?\d+))?$")
_OFFSET: Final = re.compile(r"^(?:i?send|i?recv)/.+:(?P<offset>[+-]\d+)$")


@dataclass(frozen=True, slots=True)
class Transfer:
    """Both ends of sends and receives.

    Args:
        group: Name of the process group.
        source, target: Ranks; the source is -1 of a receive from whoever sends.
        tag: As far as the backend matches tags; 0 by default.
    """

    group: str
    source: int
    target: int
    tag: int = 0

    @property
    def name(self) -> str:
        """The name in the ring of collectives: `world:0->1`."""
        tag = f" tag {self.tag}" if self.tag else ""
        return f"{self.group}:{'any' if self.source < 0 else self.source}->{self.target}{tag}"

    @property
    def ends(self) -> tuple[int, ...]:
        """The ranks that are known to take part."""
        return (self.target,) if self.source < 0 else (self.source, self.target)

    def peer_words(self, *, sends: bool) -> str:
        """Return the other end as people name it: `to rank 1`, `from rank 0 (tag 7)`."""
        tag = f" (tag {self.tag})" if self.tag else ""
        if sends:
            return f"to rank {self.target}{tag}"
        return f"from {'any rank' if self.source < 0 else f'rank {self.source}'}{tag}"


def is_send(operation: str) -> bool:
    """Return whether the operation gives; the others of `TRANSFERS` receive."""
    return operation in ("send", "isend")


@lru_cache(maxsize=4096)
def transfer_of(name: str) -> Transfer | None:
    """Return the ends of a transfer by its name in the ring; None of a collective's group."""
    found = _ENDS.match(name)
    if found is None:
        return None
    source = -1 if found["source"] == "any" else int(found["source"])
    return Transfer(found["group"], source, int(found["target"]), int(found["tag"] or 0))


def transfer_site(operation: str, group: str, rank: int, peer: int | None) -> str:
    """Return the site of what this rank sends to a peer or receives from it; None is whoever sends."""
    return f"{operation}/{group}" if peer is None else f"{operation}/{group}:{peer - rank:+d}"


def offset_of(site: str) -> int | None:
    """Return the peer's rank less this rank's of a transfer's site; None of other sites."""
    found = _OFFSET.match(site)
    return None if found is None else int(found["offset"])
