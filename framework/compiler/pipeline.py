"""From a captured graph to something that runs: an ordered, plain list of passes, then a backend from a table.

    captured graph
      -> PASSES, each graph -> graph; its docstring says what it does
      -> custom passes of the stage "after"
      -> backend.compile(graph) -> Executable

With "O0" the graph runs as it was captured, by the reference evaluator.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol

from ...garbage import uncollected
from ..errors import EngineError, NameTaken
from ..ir import Graph
from ..random import Key
from ..tensor import Array
from .graph_evaluator import Evaluator
from .passes.algebra import expand, pool_first, simplify
from .passes.memory_passes import recompute
from .passes.structural_passes import drop_marks, fold_constants, inline, share_common
from .rewrite import Rewrite, apply_rewrites

__all__ = [
    "BACKENDS",
    "CUSTOM",
    "PASSES",
    "Backend",
    "Executable",
    "Pass",
    "backend_named",
    "compile",
    "optimize",
    "register_backend",
    "register_custom_pass",
    "unregister_custom_pass",
]

#: `backend(graph, **options)`: an executable, as `pipeline.Executable` describes it.
Backend = Callable[..., "Executable"]

BACKENDS: dict[str, Backend] = {}

# Our own, imported on first use, since backends stand above the compiler: module and function.
_BUILT_IN = {"numpy": ("..backends.numpy", "compile_graph"), "xla": ("..backends.xla_backend", "compile_graph")}


def register_backend(name: str) -> Callable[[Backend], Backend]:
    """Return a decorator: the function `(graph, **options) -> executable` becomes the backend of that name.

    The executable is called with a list of arrays, one for each parameter of the graph, and returns an array or a
    tuple of arrays, as the type of the graph's output has it; they belong to the caller.

    Raises:
        NameTaken: A backend of that name stands already.
    """

    def register(backend: Backend) -> Backend:
        if name in BACKENDS or name in _BUILT_IN:
            raise NameTaken(f"a backend '{name}' is registered already; give the new one another name")
        BACKENDS[name] = backend
        return backend

    return register


def backend_named(name: str) -> Backend:
    """Return the backend of that name.

    Raises:
        KeyError: There is none, or what it needs is not installed.
    """
    if name not in BACKENDS and name in _BUILT_IN:
        module, function = _BUILT_IN[name]
        try:
            BACKENDS[name] = getattr(import_module(module, __package__), function)
        except ModuleNotFoundError as error:
            raise KeyError(
                f"backend '{name}' needs {error.name}, which is not installed; pip install mindscope[{name}]"
            ) from error
    if name not in BACKENDS:
        known = sorted({*BACKENDS, *_BUILT_IN})
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise KeyError(f"no backend '{name}'{hint}; known are {', '.join(known)}")
    return BACKENDS[name]


Pass = Callable[[Graph], Graph]

#: What the optimiser does, in this order.
PASSES: tuple[Pass, ...] = (
    drop_marks,
    inline,
    simplify,
    fold_constants,
    share_common,
    expand,
    pool_first,
    simplify,
    fold_constants,
    share_common,
    recompute,
)

Stage = Literal["before", "after"]


class Executable(Protocol):
    """A compiled graph: called with one array for each parameter, weights last, it returns the graph's result.

    The result is an array, or a tuple as nested as the output's type; its arrays belong to the caller.
    """

    def __call__(self, arguments: Sequence[Array | Key]) -> Any:  # nested as the result of the graph is
        """Return the result for these arrays; the arrays of assigned weights are overwritten in place."""


class _Custom(NamedTuple):
    run: Pass
    stage: Stage
    backend: str | None


#: Passes of users, by name, in the order of registration.
CUSTOM: dict[str, _Custom] = {}


def register_custom_pass(
    name: str, *rules: Rewrite, run: Pass | None = None, stage: Stage = "before", backend: str | None = None
) -> None:
    """Register a pass that functions compiled with "O1" go through from now on.

    Args:
        name: For messages, and to take it out again.
        rules: Patterns and what takes their place, applied until none fits; or else
        run: Any function from a graph to a graph that leaves the one it is given alone.
        stage: "before" the engine's own passes, or "after" them.
        backend: Only when compiling for this backend; for every one by default.

    Raises:
        NameTaken: A pass of that name stands already.
        ValueError: Neither rules nor a function, or both, or an unknown stage.
    """
    if name in CUSTOM:
        raise NameTaken(f"a custom pass '{name}' is registered already; give the new one another name")
    if bool(rules) == (run is not None):
        raise ValueError(f"custom pass '{name}' expects rewrite rules or run=, one of both")
    if stage not in ("before", "after"):
        raise ValueError(f"custom pass '{name}' expects stage 'before' or 'after', got {stage!r}")
    CUSTOM[name] = _Custom(run or (lambda graph: apply_rewrites(graph, rules)), stage, backend)


def unregister_custom_pass(name: str) -> None:
    """Remove the pass of that name.

    Raises:
        KeyError: There is none.
    """
    if name not in CUSTOM:
        raise KeyError(f"no custom pass '{name}'; registered are {', '.join(CUSTOM) or 'none'}")
    del CUSTOM[name]


def optimize(graph: Graph, backend: str = "numpy", *, check: Callable[[Graph], object] | None = None) -> Graph:
    """Return the graph after all passes; `check` sees it after each."""
    for name, run in _all_passes(backend):
        graph = run(graph)
        if not isinstance(graph, Graph):
            raise EngineError(f"pass '{name}' expects to return a Graph, got {type(graph).__name__}")
        if check is not None:
            check(graph)
    return graph


def _all_passes(backend: str) -> list[tuple[str, Pass]]:
    chosen = {name: p for name, p in CUSTOM.items() if p.backend in (None, backend)}
    before = [(name, p.run) for name, p in chosen.items() if p.stage == "before"]
    after = [(name, p.run) for name, p in chosen.items() if p.stage == "after"]
    return [*before, *((run.__name__, run) for run in PASSES), *after]


def compile(
    graph: Graph, level: str = "O1", backend: str = "numpy", *, given: Mapping[int, Array] | None = None
) -> Executable:
    """Return the graph as something that runs.

    Args:
        graph: An outermost graph; it is left alone.
        level: "O0": as captured, by the reference evaluator. "O1": optimised, by the backend.
        backend: A name known to `register_backend`.
        given: Arrays to write outputs of the graph's tuple into, by number, where the backend can do that (it says
            so by an attribute `writes_given`); those outputs are then these arrays.

    Raises:
        ValueError: An unknown level.
        KeyError: An unknown backend.
    """
    if level not in ("O0", "O1"):
        raise ValueError(f"jit_level expects 'O0' or 'O1', got {level!r}")
    chosen = backend_named(backend)
    if level == "O0":
        return Evaluator(graph)
    with uncollected():
        return _compiled(chosen, optimize(graph, backend), given)


def _compiled(chosen: Callable[..., Executable], optimized: Graph, given: Mapping[int, Array] | None) -> Executable:
    if given and getattr(chosen, "writes_given", False):
        return chosen(optimized, given=dict(given))
    return chosen(optimized)
