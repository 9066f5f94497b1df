"""A training in a process of its own that makes the steps it is told, and logs images and sounds."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import numpy as np
import torch
import mindscope as ms

torch.set_num_threads(1)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
monitor = ms.watch(model, optimizer, store=sys.argv[1], run="drawing")
for line in sys.stdin:
    step = int(line)
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    monitor.log_image("samples", [np.full((8, 8, 3), 40 * step % 256, np.uint8)] * 3, caption="fixed noise")
    monitor.log_image("maps/" + "a-long-name-" * 8, np.linspace(0, 1, 300 * 900).reshape(300, 900))
    monitor.log_audio("speech", np.sin(np.arange(8000) / 9), 8000)
    monitor.flush()
monitor.close()
"""


class Drawing:
    """The training.

    Args:
        folder: Where its script goes, and its store if no other is given.
    """

    def __init__(self, folder: Path, store: str | None = None) -> None:
        script = folder / "script.py"
        script.write_text(SCRIPT)
        self.store = store or str(folder / "runs")
        self.process = subprocess.Popen(
            [sys.executable, str(script), self.store], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def make(self, *steps: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{step}\n" for step in steps))
        self.process.stdin.flush()

    def end(self) -> None:
        """Let it come to its end, unless it was killed."""
        self.process.communicate(timeout=60)
