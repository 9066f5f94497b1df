"""Hooks of quantities that are read inside a forward or backward pass: users' own, and routers."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...storage.errors import nearest
from ...storage.metric_series import display_site
from ..collectors.custom_quantities import QUANTITIES, Quantity
from ..configuration.sections import Router
from ..errors import TrainingTouched
from ..quantities.router_statistics import EXPERT, ROUTER, router_statistics
from ..recording.recorder import Recorder
from ..tensor_access import Access, ForwardHook, HookHandle, Tensor, Unsupported, tensors_in

#: Words in the name of a router inside its parent module.
_ROUTERS: Final = ("router", "gate")
_EXPERTS: Final = "experts"
#: Attributes that tell how many experts a token goes to; without any of them it is one.
_TOP_K: Final = ("top_k", "num_experts_per_tok", "topk", "k")


def routers_in(modules: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """Yield site and top-k of every router whose output is the logits of its experts.

    A router is a child `router` of a module with a number `top_k`; or a child with router or gate in its name, beside a
    list of `experts`, whose weight has one row for each expert.
    """
    sizes: dict[str, int] = {}
    for site in modules:
        parent, _, name = site.rpartition(".")
        if name.isdigit() and parent.rpartition(".")[2] == _EXPERTS:
            owner = parent.rpartition(".")[0]
            sizes[owner] = sizes.get(owner, 0) + 1
    for site, module in modules.items():
        parent, _, name = site.rpartition(".")
        if not site or parent not in modules:
            continue
        top_k = _top_k_of(modules[parent])
        is_declared = name == "router" and isinstance(getattr(modules[parent], "top_k", None), int)
        if is_declared or _fits(module, name, sizes.get(parent, 0), top_k):
            yield site, top_k


def _top_k_of(module: object) -> int:
    found = (getattr(module, name, None) for name in _TOP_K)
    return next((value for value in found if isinstance(value, int) and value > 0), 1)


def _fits(module: object, name: str, experts: int, top_k: int) -> bool:
    if experts < 2 or not any(word in name for word in _ROUTERS):
        return False
    try:
        shape = tuple(getattr(getattr(module, "weight", None), "shape", ()))
    except RuntimeError:  # a lazy layer has no shape yet
        return False
    return len(shape) == 2 and shape[0] == experts and top_k <= experts


class GuardedQuantity:
    """Calls a user's function with the tensors of one site, and refuses it if it writes into them.

    The first tensor is a copy: a function that writes into it is refused before it has seen a tensor of the training.
    Later ones are the training's own, since copies of large activations are expensive; their versions are checked.
    """

    __slots__ = ("_access", "_is_trusted", "_quantity")

    def __init__(self, quantity: Quantity, access: Access) -> None:
        self._quantity, self._access, self._is_trusted = quantity, access, False

    def __call__(self, tensor: Tensor) -> dict[str, float]:
        """Call the function with the tensor and return its result.

        Raises:
            TypeError: The function has written into its copy, or returned something else than numbers.
            TrainingTouched: It has written into a tensor of the training.
        """
        access, quantity = self._access, self._quantity
        original = access.shown(tensor)
        shown = original if self._is_trusted else access.copied(original)
        before = _version(shown, access)
        try:
            return quantity(shown)
        finally:
            is_written = _version(shown, access) != before
            if not self._is_trusted and (is_written or _differ(shown, original, access)):
                raise TypeError(
                    f"quantity {quantity.name!r} must not write into its tensor, and has written into a copy of it; "
                    "let it work on a copy of its own"
                )
            if is_written:
                raise TrainingTouched(
                    f"quantity {quantity.name!r} has written into a tensor of the training, which continues with the "
                    "written values; let it work on a copy of its own"
                )
            self._is_trusted = True


def _version(tensor: Tensor, access: Access) -> int:
    """Return a number that changes when the tensor is written; 0 where torch does not count, as in inference mode."""
    try:
        version = access.version(tensor)
        return version if version == access.version(tensor) else 0
    except RuntimeError:
        return 0


def _differ(shown: Tensor, original: Tensor, access: Access) -> bool:
    """Return whether the bits differ, which versions miss when NumPy writes; False on a device."""
    try:
        if access.remote(original) is not None:
            return False
        return not np.array_equal(_bits(access.array(shown)), _bits(access.array(original)))
    except Unsupported:
        return False


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


_log = logging.getLogger(__name__)

#: Registers a forward hook on a module and returns its handle.
Register: TypeAlias = Callable[[Any, ForwardHook], HookHandle]  # Any: a module of any framework


class QuantityHooks:
    """The hooks of users' quantities and routers on the modules of one model.

    Args:
        counts: Whether a forward that runs now is to be recorded.
        register: How the framework puts a forward hook on a module.
    """

    def __init__(self, recorder: Recorder, access: Access, counts: Callable[[], bool], register: Register) -> None:
        self._recorder, self._access, self._counts, self._register = recorder, access, counts, register
        self._refused: set[str] = set()

    def attach(self, modules: Mapping[str, object]) -> Iterator[HookHandle]:
        """Attach all hooks to the modules, given by site, and yield their handles."""
        for quantity in QUANTITIES.values():
            if quantity.at in ("forward", "backward") and self._is_wanted(quantity.name):
                for site in self._chosen(f"quantity {quantity.name!r}", modules, quantity.sites or ()):
                    yield self._register(modules[site], self._user_hook(site, quantity))
        if self._is_wanted("router"):
            for site, router in self._routers(modules).items():
                yield self._register(modules[site], self._router_hook(site, router))

    def _is_wanted(self, name: str) -> bool:
        return self._recorder.config.schedule(name).is_ever_due

    def _chosen(self, who: str, modules: Mapping[str, object], patterns: Iterable[str]) -> list[str]:
        """Return the sites that match; report each pattern that matches none."""
        chosen: dict[str, None] = {}
        for pattern in patterns:
            found = _matching(modules, pattern)
            if not found:
                near = nearest(pattern, map(display_site, modules))
                reason = f"{who}: pattern {pattern!r} matches none of {len(modules)} modules{near}"
                _log.warning("%s", reason)
                self._recorder.event("monitor_fault", collector=who, error=reason)
            chosen.update(dict.fromkeys(found))
        return list(chosen)

    def _routers(self, modules: Mapping[str, object]) -> dict[str, Router]:
        config = self._recorder.config
        patterns = [(router, pattern) for router in config.routers for pattern in router.sites]
        named = {site: router for router, pattern in patterns for site in _matching(modules, pattern)}
        found = {child: Router(sites=(child,), top_k=top_k) for child, top_k in routers_in(modules)}
        if not found and not config.routers and "router" in config.subjects:
            reason = "router: no module has a child `router` and a number `top_k`; name the routers under `routers`"
            _log.warning("%s", reason)
            self._recorder.event("monitor_fault", collector="router", error=reason)
        return {**found, **named}

    def _user_hook(self, site: str, quantity: Quantity) -> ForwardHook:
        recorder, calls, show = self._recorder, _Calls(self._recorder), GuardedQuantity(quantity, self._access)

        def take(call: int, tensor: Tensor) -> None:
            found = show(tensor)
            if found:
                recorder.open_rows(quantity.subject, tuple(found)).row(site, call).put(tuple(found.values()))

        def see(_module: object, _inputs: object, output: object) -> None:
            call = calls.next()
            for _, tensor in tensors_in(output, self._access):
                if quantity.at == "forward":
                    take(call, tensor)
                elif self._access.node(tensor) is not None:
                    see_gradient = self._on_gradient(quantity.name, lambda gradient: take(call, gradient))
                    tensor.register_hook(recorder.guard(see_gradient))
                return

        return self._guarded(quantity.name, see)

    def _on_gradient(self, name: str, take: Callable[[Tensor], None]) -> Callable[[Tensor], None]:
        recorder, current = self._recorder, self._recorder.current
        stamp = current.stamp

        def see_gradient(gradient: Tensor) -> None:
            if current.stamp != stamp or name not in current.due:
                return
            try:
                take(gradient)
            except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
                recorder.fail(name, error)

        return see_gradient

    def _router_hook(self, site: str, router: Router) -> ForwardHook:
        recorder, calls = self._recorder, _Calls(self._recorder)

        def see(module: object, _inputs: object, output: object) -> None:
            tensor = _routing_tensor(module, output, router, self._access)
            if self._is_refused(site, router, tensor):
                return
            call, device_tensor = calls.next(), self._access.remote(tensor)
            if device_tensor is not None and recorder.device_results.accepts_requests:
                self._route_later(site, call, router, device_tensor)
                return
            numbers, of_experts = _routed(router, self._access.array(tensor))
            recorder.open_rows("router", ROUTER).row(site, call).put(numbers)
            rows = recorder.open_rows("router/expert", EXPERT)
            for expert, numbers_of_expert in enumerate(of_experts.tolist()):
                rows.row(f"{site}[{expert}]", call).put(numbers_of_expert)

        return self._guarded("router", see)

    def _is_refused(self, site: str, router: Router, tensor: Tensor) -> bool:
        """Return whether the tensor has another number of experts than configured; report that once per site."""
        if site in self._refused:
            return True
        expected, got = router.experts, int(tensor.shape[-1]) if tensor.ndim else 0
        if router.holds == "experts" or expected is None or expected == got:
            return False
        self._refused.add(site)
        reason = (
            f"router {display_site(site)!r}: expected {expected} experts, as `routers` says, got {got} {router.holds} "
            f"of a token; nothing is recorded for it; correct `experts`, or name the module that chooses among them"
        )
        _log.warning("%s", reason)
        self._recorder.event("monitor_fault", site, collector="router", error=reason)
        return True

    def _route_later(self, site: str, call: int, router: Router, tensor: Tensor) -> None:
        """Record the router statistics of scores on a device once the scores arrive."""
        recorder, device_results = self._recorder, self._recorder.device_results
        fetched, found = device_results.fetch(tensor), list[Routed]()
        device_results.do("router", lambda: found.append(_routed(router, fetched.array)))
        numbers = device_results.make("router", lambda: found[0][0] if found else None)
        recorder.open_rows("router", ROUTER).row(site, call).wait_for(numbers)
        rows = recorder.open_rows("router/expert", EXPERT)
        for expert in range(_experts_of(router, tensor)):
            numbers_of_expert = device_results.make("router", partial(_row_of, found, expert))
            rows.row(f"{site}[{expert}]", call).wait_for(numbers_of_expert)

    def _guarded(self, name: str, see: ForwardHook) -> ForwardHook:
        recorder, current, counts = self._recorder, self._recorder.current, self._counts

        def after_forward(module: object, inputs: object, output: object) -> None:
            if name not in current.due or current.is_away or not counts():
                return
            try:
                see(module, inputs, output)
            except Unsupported:
                return
            except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
                recorder.fail(name, error)

        return after_forward


def _matching(modules: Mapping[str, object], pattern: str) -> list[str]:
    return [site for site in modules if fnmatchcase(display_site(site), pattern)]


class _Calls:
    """Numbers the calls of one module within a micro-step."""

    def __init__(self, recorder: Recorder) -> None:
        self._current, self._stamp, self._call = recorder.current, -1, 0

    def next(self) -> int:
        """Return the number of the call that has just ended, from 0."""
        self._call = self._call + 1 if self._stamp == self._current.stamp else 0
        self._stamp = self._current.stamp
        return self._call


#: The numbers of `ROUTER`, and `(experts, 2)` those of `EXPERT`.
Routed: TypeAlias = tuple[tuple[float, ...], NDArray[np.float64]]


def _routed(router: Router, scores: NDArray[Any]) -> Routed:
    return router_statistics(
        scores, router.holds, top_k=router.top_k, experts=router.experts, capacity_factor=router.capacity_factor
    )


def _row_of(found: list[Routed], expert: int) -> NDArray[np.float64] | None:
    return found[0][1][expert] if found else None


def _experts_of(router: Router, tensor: Tensor) -> int:
    """Return the number of experts; 0 if neither the router nor the configuration tells it, which `_routed` reports."""
    return (router.experts or 0) if router.holds == "experts" else int(tensor.shape[-1])


def _routing_tensor(module: object, output: object, router: Router, access: Access) -> Tensor:
    """Return the tensor that tells where the tokens go.

    Raises:
        TypeError: There is none.
    """
    if router.attribute is not None:
        found = getattr(module, router.attribute, None)
    elif isinstance(output, access.kind):
        found = output
    elif isinstance(output, tuple | list) and isinstance(router.output, int) and router.output < len(output):
        found = output[router.output]
    else:
        found = output.get(router.output) if isinstance(output, Mapping) else getattr(output, str(router.output), None)
    if not isinstance(found, access.kind):
        where = f"attribute {router.attribute!r}" if router.attribute is not None else f"output {router.output!r}"
        raise TypeError(f"{where} of router {type(module).__name__} must be a tensor, got {type(found).__name__}")
    return found
