"""CUDA graphs: while one is captured nothing of ours runs, and torch makes graphs of modules without our hooks.

A capture ends with an error if anything of the process waits for the device, or asks whether it has finished.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import torch

from ...aside import aside
from ...guard import Guard, guards_at_rest
from ...recording.recorder import Recorder
from .torch_patches import PatchedFunctions, report

#: What modules keep their hooks in; torch makes no graph of one that has any.
_HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_OURS: Final = __name__.partition(".probe.")[0] + "."


class CaptureListener:
    """Waits for the device before a CUDA graph is captured, and records once that one was.

    Begins to listen when it is made; as long as anybody listens, captures go undisturbed.

    Args:
        recorder: Of the run; without one nothing is recorded yet.
        guard: Takes what we raise.
    """

    def __init__(self, guard: Guard, recorder: Recorder | None = None) -> None:
        self.guard, self._recorder, self._has_captured = guard, recorder, False
        _patches.add(self)

    def remove(self) -> None:
        """Listen no more."""
        _patches.remove(self)

    def capture_begins(self) -> None:
        """Wait for what a device has yet to bring: while a graph is captured nobody may ask for it."""
        if self._recorder is not None:
            self._recorder.flush(wait=True)

    def capture_ended(self) -> None:
        """Record that replays, which call no hooks, take the place of what was captured."""
        if self._recorder is not None and not self._has_captured:
            self._has_captured = True
            self._recorder.event("graph_captured")


class _Captures:
    """The captures that are under way in the process."""

    def __init__(self) -> None:
        self._under_way: list[ExitStack] = []

    def watch(self) -> None:
        """Replace what torch captures graphs with."""
        _patches.put(torch.cuda.CUDAGraph, "capture_begin", self._beginning)
        _patches.put(torch.cuda.CUDAGraph, "capture_end", self._ending)
        for owner in (torch.cuda, torch.cuda.graphs):
            _patches.put(owner, "make_graphed_callables", self._making)

    def _beginning(self, original: Callable[..., object]) -> Callable[..., object]:
        def capture_begin(*arguments: object, **options: object) -> object:
            self._enter()
            try:
                return original(*arguments, **options)
            except BaseException:
                self._leave()
                raise

        return capture_begin

    def _ending(self, original: Callable[..., object]) -> Callable[..., object]:
        def capture_end(*arguments: object, **options: object) -> object:
            try:
                return original(*arguments, **options)
            finally:
                self._leave()

        return capture_end

    def _making(self, original: Callable[..., object]) -> Callable[..., object]:
        def make_graphed_callables(callables: object, *arguments: object, **options: object) -> object:
            several = callables if isinstance(callables, tuple | list) else (callables,)
            modules = [part for one in several if isinstance(one, torch.nn.Module) for part in one.modules()]
            self._enter()
            try:
                with _without_our_hooks(modules):
                    return original(callables, *arguments, **options)
            finally:
                self._leave()

        return make_graphed_callables

    def _enter(self) -> None:
        if not self._under_way:
            report(_patches.listeners, "capture_begins")
        stack = ExitStack()
        stack.enter_context(aside())
        stack.enter_context(guards_at_rest())
        self._under_way.append(stack)

    def _leave(self) -> None:
        if not self._under_way:
            return
        with suppress(ValueError):  # ended in another thread than it was begun in
            self._under_way.pop().close()
        if not self._under_way:
            report(_patches.listeners, "capture_ended")


_patches: PatchedFunctions[CaptureListener] = PatchedFunctions(_Captures().watch)


@contextmanager
def _without_our_hooks(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    taken: list[tuple[Any, dict[int, Any]]] = []
    for module in modules:
        for hooks in (getattr(module, name, None) for name in _HOOKS):
            if hooks and any(map(_is_ours, hooks.values())):
                taken.append((hooks, dict(hooks)))
                for number in [number for number, hook in hooks.items() if _is_ours(hook)]:
                    del hooks[number]
    try:
        yield
    finally:
        for hooks, before in taken:  # in their order, and new ones behind them
            now = dict(hooks)
            hooks.clear()
            hooks.update({number: hook for number, hook in before.items() if number in now or _is_ours(hook)})
            hooks.update({number: hook for number, hook in now.items() if number not in before})


def _is_ours(hook: object) -> bool:
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return str(module).startswith(_OURS)
