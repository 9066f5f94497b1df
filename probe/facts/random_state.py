"""Where the generators of random numbers stand: short checksums, by which runs and ranks are compared."""

import random
import sys
from hashlib import blake2b

from ...storage.records import Json


def random_state_checksums() -> dict[str, Json]:
    """A checksum of every process-wide generator that is in use: Python's, NumPy's, torch's by device, the engine's.

    Nothing is drawn and no generator moves.
    """
    found: dict[str, Json] = {"python": _checksum(repr(random.getstate()).encode())}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kind, keys, *rest = numpy.get_state()
        found["numpy"] = _checksum(repr((kind, *rest)).encode() + keys.tobytes())
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["torch"] = _checksum(torch.get_rng_state().numpy().tobytes())
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            for number, state in enumerate(torch.cuda.get_rng_state_all()):
                found[f"cuda:{number}"] = _checksum(state.numpy().tobytes())
    engine = sys.modules.get(f"{__package__.partition('.')[0]}.framework.random")
    if engine is not None:
        found["mindscope"] = _checksum(repr(engine.get_state()).encode())
    return found


def _checksum(state: bytes) -> str:
    return blake2b(state, digest_size=8).hexdigest()
