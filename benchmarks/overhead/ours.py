"""mindscope as its users attach it, with live diagnosis and a store on disk."""

from typing import Any

import mindscope
from mindscope.storage import open_store

from .tool import Attached

_NEVER = 10**9
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "gradients": {"subjects": ["gradient", "gradient_norm", "loss"], "histograms": {"every": 0}},
    "everything": {"every": 1},
    "every 10th": {"every": 10},
    "nothing due": {"every": _NEVER, "histograms": {"every": 0}},
    "detached": {"every": 1},
}


def attach(model: Any, optimizer: Any, row: str, folder: str) -> Attached:
    """A monitor; of `detached` one that is closed again."""
    monitor = mindscope.watch(model, optimizer, store=open_store(folder), config=CONFIGURATIONS[row])
    if row == "detached":
        monitor.close()
        return Attached()
    return Attached(finish=monitor.flush, close=monitor.close)
