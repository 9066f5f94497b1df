"""The structure of a run: modules in the order of their calls, parameters, optimizer groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from ...storage.run_info import ModuleInfo, OptimizerInfo, ParameterInfo, Structure
from ..collectors.collector import COLLECTORS
from ..errors import NotWatchable
from ..tensor_access import Access, ForwardHook, HookHandle, Node, Tensor, tensors_in

# A hook is registered on any framework's module.
Register: TypeAlias = Callable[[Any, ForwardHook], HookHandle]
Children: TypeAlias = Callable[[Any], Iterable[object]]

_FARTHEST = 200
_MOST_KEPT = 20_000


class CallTrace:
    """Traces forwards until one of the whole model is complete; then it removes its hooks and releases every tensor.

    An input's origin is the module whose output it is, by identity, or through the graph of differentiation between
    them; so `x + f(x)` has the origins of both. The tensors of this one forward are kept until it ends, so that none is
    confused with another at the same address.

    Args:
        register: Puts a forward hook `(module, inputs, output)` on a module and returns its handle.
    """

    def __init__(self, modules: Mapping[str, object], access: Access, register: Register) -> None:
        self.is_complete = False
        self._modules, self._access = modules, access
        self._order: dict[str, int] = {}
        self._inputs: dict[str, tuple[str, ...]] = {}
        self._direct: dict[str, tuple[str, ...]] = {}
        self._leaves: dict[int, tuple[str, int]] = {}
        self._containers = {site.rpartition(".")[0] for site in modules if site}
        self._producers: dict[int, str] = {}
        self._nodes: dict[Node, str] = {}
        self._kept: list[Tensor] = []
        self._handles = [register(module, self._hook(site)) for site, module in modules.items()]

    def stop(self) -> None:
        """Remove the hooks and release every tensor."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._producers, self._nodes, self._kept, self._leaves = {}, {}, [], {}

    def finish(self) -> None:
        """End the trace with the calls seen so far; a model that only lists its parts is never called as a whole."""
        if self._order and not self.is_complete:
            self.is_complete = True
            self.stop()

    def modules(self, children: Children) -> tuple[ModuleInfo, ...]:
        """Return the modules in order of their first completion, then those that were never called."""
        infos = [
            ModuleInfo(
                site,
                type(module).__name__,
                self._order.get(site, -1),
                self._inputs.get(site, ()),
                not any(True for _ in children(module)),
                self._direct.get(site, ()),
            )
            for site, module in self._modules.items()
        ]
        return tuple(sorted(infos, key=lambda info: (info.order < 0, info.order)))

    def _hook(self, site: str) -> ForwardHook:
        def after_forward(_module: object, inputs: object, output: object) -> None:
            if site not in self._order:
                self._inputs[site] = tuple(dict.fromkeys(self._origins(inputs)))
                self._direct[site] = tuple(dict.fromkeys(self._givers(inputs)))
                self._order[site] = len(self._order)
            for _, tensor in tensors_in(output, self._access):
                self._kept.append(tensor)
                self._producers[id(tensor)] = site
                if site not in self._containers:
                    self._leaves[id(tensor)] = site, self._access.version(tensor)
                node = self._access.node(tensor)
                if node is not None:
                    self._nodes[node] = site
            if not site or len(self._kept) > _MOST_KEPT:
                self.is_complete = True
                self.stop()

        return after_forward

    def _origins(self, inputs: object) -> Iterable[str]:
        for _, tensor in tensors_in(inputs, self._access):
            if id(tensor) in self._producers:
                yield self._producers[id(tensor)]
            else:
                yield from self._behind(self._access.node(tensor))

    def _givers(self, inputs: object) -> Iterable[str]:
        """Yield the innermost modules that returned these very tensors, if nothing changed them in place since."""
        for _, tensor in tensors_in(inputs, self._access):
            giver, version = self._leaves.get(id(tensor), ("", -1))
            if giver and self._access.version(tensor) == version:
                yield giver

    def _behind(self, node: Node | None) -> list[str]:
        found: list[str] = []
        waiting = [] if node is None else [node]
        seen = set(waiting)
        while waiting and len(seen) < _FARTHEST:
            node = waiting.pop()
            if node in self._nodes:
                found.append(self._nodes[node])
                continue
            fresh = [earlier for earlier in self._access.before(node) if earlier not in seen]
            seen.update(fresh)
            waiting += fresh
        return found


class CallOrder:
    """The call order of the modules: traced until it is known, and again when the model's modules change.

    Args:
        modules: By site, as they are whenever a forward begins to be followed.
        register: Puts a forward hook `(module, inputs, output)` on a module and returns its handle.
        children: What a module holds itself.
        known: Called when the order is.

    Attributes:
        trace: What follows.
        is_known: Whether it has come to its end.
    """

    def __init__(
        self,
        modules: Mapping[str, object],
        access: Access,
        *,
        register: Register,
        children: Children,
        known: Callable[[], None],
    ) -> None:
        self._modules, self._access, self._register = modules, access, register
        self._children, self._known = children, known
        self.begin()

    def begin(self) -> None:
        """Trace the next forward."""
        self.is_known = False
        self.trace = CallTrace(self._modules, self._access, self._register)

    def finish(self) -> None:
        """End the trace with the calls seen so far; a model may be only a list of parts."""
        self.trace.finish()

    def step_ends(self) -> None:
        """Report that the order is known, once a forward was traced to its end."""
        if self.trace.is_complete and not self.is_known:
            self.is_known = True
            self._known()

    def stop(self) -> None:
        """Stop tracing forwards."""
        self.trace.stop()

    def modules(self) -> tuple[ModuleInfo, ...]:
        """Return the modules in the order of their first calls, as far as known."""
        return self.trace.modules(self._children)


class _Optimizer(Protocol):
    @property
    def param_groups(self) -> Sequence[Mapping[str, Any]]:  # Any: parameters and options under their names
        """Parameters and options of each group."""


class _Parameter(Protocol):
    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is computed for it."""


_AnyParameter = TypeVar("_AnyParameter", bound=_Parameter)


def check_belongs(optimizer: _Optimizer, parameters: Iterable[object], model: object) -> None:
    """Check that the optimizer steps at least one of these parameters.

    Raises:
        NotWatchable: It was made for another model.
    """
    parameter_ids = {id(parameter) for parameter in parameters}
    if not any(id(parameter) in parameter_ids for group in optimizer.param_groups for parameter in group["params"]):
        raise NotWatchable(
            f"optimizer {type(optimizer).__name__} steps no parameter of {type(model).__name__}; "
            f"pass the optimizer that was made from this model's parameters"
        )


def groups_of(optimizers: Iterable[_Optimizer]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return (optimizer, group) numbers of every group that holds a parameter, by the parameter's id.

    A group that an optimizer shares with the one that it wraps, as of sharpness-aware minimisation, counts once.
    """
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    known: set[int] = set()
    for number, optimizer in enumerate(optimizers):
        for group_number, group in enumerate(optimizer.param_groups):
            if id(group) in known:
                continue
            known.add(id(group))
            for parameter in group["params"]:
                found[id(parameter)] = (*found.get(id(parameter), ()), (number, group_number))
    return found


#: Shape and dtype of a parameter, and a number for its memory; parameters that share memory have the same number.
Describe: TypeAlias = Callable[[_AnyParameter], tuple[tuple[int, ...], str, int]]
#: (optimizer, group) numbers of every group that holds a parameter, by the parameter's id.
Groups = Mapping[int, tuple[tuple[int, int], ...]]


def structure_of(
    order: CallOrder,
    named: Iterable[tuple[str, _AnyParameter]],
    optimizers: tuple[OptimizerInfo, ...],
    *,
    groups: Groups,
    describe: Describe[_AnyParameter],
) -> Structure:
    """Return the modules in call order, all parameters by site, the optimizers, and the recorded subjects."""
    subjects = tuple(name for name, entry in COLLECTORS.items() if entry.columns)
    return Structure(order.modules(), _parameter_infos(named, groups, describe), optimizers, subjects)


def _parameter_infos(
    named: Iterable[tuple[str, _AnyParameter]], groups: Groups, describe: Describe[_AnyParameter]
) -> tuple[ParameterInfo, ...]:
    storages: dict[int, int] = {}
    infos: list[ParameterInfo] = []
    for name, parameter in named:
        shape, dtype, memory = describe(parameter)
        memberships = groups.get(id(parameter), ())
        first, storage = next(iter(memberships), None), storages.setdefault(memory, len(storages))
        infos.append(
            ParameterInfo(
                name,
                shape,
                dtype,
                requires_grad=parameter.requires_grad,
                group=first,
                storage=storage,
                more_groups=memberships[1:],
            )
        )
    return tuple(infos)
