"""A process of its own for one tool and one row: its copy of the model takes turns with two unmonitored ones.

    python -m overhead.worker FRAMEWORK MODEL TOOL ROW SECONDS ROUNDS

Prints the ratios as JSON. What a tool replaces in the framework for the whole process, the unmonitored copies pay too.
"""

import json
import os
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module

from models import engine_training, torch_training

from .interleave import CLOCKS, Copy, ratios, take_turns
from .tool import Attach

#: Where each tool is attached: the module and the function, or what a function of that module makes of another.
TOOLS = {
    "mindscope": ("ours", "attach"),
    "hooks by hand, 4 statistics": ("by_hand", "attach_four"),
    "hooks by hand, 9 statistics": ("by_hand", "attach_nine"),
    "msprobe": ("peers", "msprobe"),
    "trainscope": ("peers", "trainscope"),
    "trainscope, its default": ("peers", "trainscope_default"),
    "torchmortem": ("peers", "torchmortem"),
}
_WARM_UP = 3
#: Steps of a turn: every tenth step counts fully, and the machine has little time to change between two turns.
_TURN = 10
#: The same on a GPU, which is waited for at the end of a turn only: a host that is ahead of it hides what a step costs.
_TURN_GPU = 40


def main(framework: str, name: str, tool: str, row: str, seconds: float, rounds: int) -> dict[str, object]:
    """What is printed."""
    if framework == "torch":
        import_module("torch").set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copies = {label: _copy(framework, name) for label in ("plain", "again", "tool")}
        watched = copies["tool"]
        watched.attached = _attach(tool)(watched.model, watched.optimizer, row, folder)
        for copy in copies.values():
            copy.turn(_WARM_UP)
        steps = _TURN_GPU if name == "gpt2" else _TURN
        step_s = copies["plain"].turn(steps)[CLOCKS.index("cpu")] / steps
        turns = max(1, round(seconds / (steps * step_s)))
        take_turns(copies, steps, turns, rounds)
        watched.attached.close()
    plain, again = copies["plain"].times, copies["again"].times
    return {
        "tool": {clock: asdict(ratio) for clock, ratio in ratios(watched.times, plain, again).items()},
        "again": {clock: asdict(ratio) for clock, ratio in ratios(again, plain).items()},
        "plain_s": sorted(one[CLOCKS.index("cpu")] for one in plain)[len(plain) // 2],
        "steps": turns * steps,
    }


def _copy(framework: str, name: str) -> Copy:
    copy = Copy(*(torch_training if framework == "torch" else engine_training)(name))
    if name == "gpt2":
        copy.settle = import_module("torch").cuda.synchronize
    return copy


def _attach(tool: str) -> Attach:
    place, name = TOOLS[tool]
    attach: Attach = getattr(import_module(f"overhead.{place}"), name)
    return attach


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints is no answer
    answer.write(json.dumps(main(*sys.argv[1:5], float(sys.argv[5]), int(sys.argv[6]))) + "\n")
    answer.flush()
    os._exit(0)  # some tools diagnose at exit, for minutes
