"""`mindscope demo` trains two real models while the dashboard shows them."""

import os
from typing import Annotated

import typer

from .failures import WrongUse
from .store_options import DEFAULT_STORE, StoreOption

_MODELS = {"cnn": ("cnn",), "transformer": ("transformer",), "both": ("cnn", "transformer")}


_Fault = Annotated[
    str,
    typer.Option(
        "--fault",
        metavar="NAME",
        help="Harm the training: nan-at-layer, lr-too-high, dead-relu, frozen-layer, missing-zero-grad, or none.",
    ),
]
_Steps = Annotated[
    int, typer.Option("--steps", min=0, help="Steps of each training; 0 takes what fits into three minutes.")
]
_Keep = Annotated[bool, typer.Option("--keep", help="Keep serving the pages after the trainings, until Ctrl-C.")]
_Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port of the dashboard; a free one if it is taken.")
]


def demo(
    fault: _Fault = "none",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="cnn, transformer or both.")] = "both",
    steps: _Steps = 0,
    store: StoreOption = DEFAULT_STORE,
    no_dashboard: Annotated[bool, typer.Option("--no-dashboard", help="Do not serve the pages.")] = False,
    keep: _Keep = False,
    port: _Port = 8050,
    config: Annotated[str, typer.Option("--config", metavar="FILE", help="What to record and when.")] = "",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of weights and batches.")] = 0,
) -> int:
    """Train a CNN and a transformer on real data, watch them live, and diagnose them."""
    if model not in _MODELS:
        raise WrongUse(f"--model expects one of {', '.join(_MODELS)}, got {model!r}")
    _leave_a_core()
    from rich.console import Console

    from .demo import DemoOptions, run_demo

    options = DemoOptions(
        models=_MODELS[model],
        fault=fault,
        steps=steps,
        store=store,
        shows_pages=not no_dashboard,
        keeps_pages=keep,
        port=port,
        config=config,
        seed=seed,
    )
    return run_demo(options, Console())


def _leave_a_core() -> None:
    """Leave one core for the writer and the pages: the threads of matrix products spin while they wait.

    Measured on two busy cores: 0.8 s of processor time a step of the transformer with two threads, 0.1 s with one. It
    works as long as NumPy is not imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, (os.cpu_count() or 1) - 1)))
