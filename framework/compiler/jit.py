"""`jit`: a function that is captured once for every signature of its arguments and from then on runs as a graph."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from .backend import backend_named
from .compiled import CAPTURE_MODES, FALLBACKS, Compiled
from .specialisation import Options

__all__ = ["jit"]


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    capture_mode: str = "ast",
    jit_level: str = "O1",
    dynamic: bool = False,
    backend: str = "numpy",
    fallback: str = "error",
) -> Any:  # what came in, compiled: a function, a method, a cell; or a decorator
    """The function, compiled; usable as a decorator, with or without arguments, on methods too.

    A call whose tensors have new shapes or dtypes, whose other arguments have new values, or before which something
    that the function had read outside of its arguments has changed, compiles it once more; `explain()` of the result
    tells why. Gradients flow through a compiled function as through any operation. Weights are read and written where
    they are. Called with tensors of classes that intercept primitives (inside `vmap`, on another device) it runs as
    plain Python; called while another function is compiled it becomes part of that one.

    Args:
        fn: A function of tensors, random keys, and nested tuples, lists and dicts of them; other arguments are
            constants. Or a cell, or a method.
        capture_mode: How Python becomes a graph. "ast": from its source; `if`, `while` and `for` over tensors become
            part of the graph. "bytecode": from what the interpreter would run; where values are needed the function is
            split. "trace": by running it once; a branch over a tensor is an error.
        jit_level: "O0" runs the graph as captured, "O1" optimises it.
        dynamic: Compile once for all lengths of the axes of the arguments; what is assumed of them is guarded.
        backend: A name known to `register_backend`.
        fallback: What is done with code that cannot be captured, such as a call that needs the values of a tensor.
            "error": a CaptureError names file, line, construct and remedy. "eager": the function runs as compiled
            pieces with plain Python between them, as with "bytecode"; `explain()` lists the places, the log says them
            once. A function that another compiled one calls becomes part of that, whose word counts.

    Raises:
        ValueError: An unknown word.
        CaptureError: When called: code that cannot be captured.

    Example:
        >>> step = jit(value_and_grad(loss_fn, None, net.trainable_params()))
        >>> loss, gradients = step(x, y)
    """
    _check("capture_mode", capture_mode, CAPTURE_MODES)
    _check("jit_level", jit_level, ("O0", "O1"))
    _check("fallback", fallback, FALLBACKS)
    try:
        backend_named(backend)
    except KeyError as error:
        raise ValueError(f"jit expects the name of a backend: {error.args[0]}") from error
    make = partial(
        Compiled,
        capture_mode=capture_mode,
        options=Options(jit_level, backend),
        is_dynamic=bool(dynamic),
        falls_back=fallback == "eager",
    )
    if fn is None:
        return make
    if not callable(fn):
        raise TypeError(f"jit expects a function, a method or a cell, got {type(fn).__name__}")
    return make(fn)


def _check(what: str, word: object, known: Any) -> None:
    if word in known:
        return
    near = get_close_matches(str(word), list(known), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} expects {' or '.join(map(repr, known))}, got {word!r}{hint}")
