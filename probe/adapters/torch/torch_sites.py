"""Sites of a torch model: its modules and parameters by the names they have without wrappers.

`torch.compile` and torch's checkpoint wrapper put a module around a module, and their own word into every name below.
The sites stay what they were: a run of a compiled model can be compared with one of the model itself.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter, methodcaller

import torch

from ....garbage import objects_of
from ....storage.plain_text import printable
from ...checks.parts_of_graph import PartsOfGraph

_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")
_parts_of, _values_of = attrgetter("_modules"), methodcaller("values")


class ModuleSites:
    """The modules of a model by site.

    Args:
        listed: Modules whose parts are called instead of themselves.

    Attributes:
        modules: The modules themselves, never a wrapper.
        compiled: Site of every module that is compiled by itself, and the number of modules hidden in its graph. They
            get no hooks: a hook there sees nothing, and torch would recompile whenever one is added or removed.
        scripted: Site of every module that `torch.jit` has made, and the number of modules whose calls TorchScript
            hides: with `torch.jit.script` its own too, with `torch.jit.trace` those inside.
        is_compiled: Whether any module was compiled or scripted at the first look, or a compiled forward of the model
            was seen since. Calls beside those of the training would have torch compile anew.
    """

    def __init__(self, model: torch.nn.Module, *, listed: tuple[torch.nn.Module, ...] = ()) -> None:
        self._model, self._listed = model, listed
        self.modules: dict[str, torch.nn.Module] = {}
        self.compiled: dict[str, int] = {}
        self.scripted: dict[str, int] = {}
        self.look()
        self.is_compiled = bool(self.compiled or self.scripted)

    @property
    def is_shared_out(self) -> bool:
        """Whether parameters are parts of tensors: their operations are collectives, which no rank makes alone."""
        return any(type(held).__name__ == "DTensor" for one in self.entrances() for held in one.parameters())

    def parts_of_graph(self) -> PartsOfGraph:
        """Return what finds the modules that are behind a node of a graph."""
        modules = self.modules
        return PartsOfGraph(lambda: ((site, module._parameters[name]) for site, module, name in owners_of(modules)))

    def has_changed(self) -> bool:
        """Return whether a module has gained, lost or replaced a part since the last look."""
        return self._parts != [*map(id, chain.from_iterable(map(_values_of, map(_parts_of, self.modules.values()))))]

    def look(self) -> frozenset[str]:
        """Update `modules`; return the sites whose module is new, gone or replaced."""
        before = dict(self.modules)
        self._part_sites: dict[int, str] | None = None
        self.modules.clear()
        self.compiled.clear()
        self.scripted.clear()
        self._outermost: dict[int, torch.nn.Module] = {}
        outermost: dict[str, torch.nn.Module] = {}
        for name, module in self._model.named_modules():
            site = _site_of(name)
            self._outermost[id(module)] = outermost.setdefault(site, module)
            self.modules[site] = module
        self._parts = self._parts_now()
        self._hidden: set[int] = set()
        self._hide(outermost)
        sites = {*before, *self.modules}
        return frozenset(site for site in sites if before.get(site) is not self.modules.get(site))

    def _parts_now(self) -> list[int]:
        return [*map(id, chain.from_iterable(map(_values_of, map(_parts_of, self.modules.values()))))]

    def _hide(self, outermost: Mapping[str, torch.nn.Module]) -> None:
        """Find the modules whose calls are compiled away."""
        for site, module in self.modules.items():
            is_scripted = isinstance(module, torch.jit.ScriptModule)
            inside = _inside_of_a_script(module) if is_scripted else _inside_of_its_graph(module, outermost[site])
            if inside and id(inside[-1]) not in self._hidden:
                (self.scripted if is_scripted else self.compiled)[site] = len(inside)
                self._hidden.update(id(hidden) for hidden in inside)

    def part(self, called: torch.nn.Module) -> str:
        """Return the site of a module of a model that only lists its parts; of any other the empty one."""
        if self._part_sites is None:
            entrances = {id(entrance) for entrance in self.entrances()} if _is_a_list(self.modules[""]) else set()
            named = ((id(self.hooked(module)), site) for site, module in self.modules.items())
            self._part_sites = {number: site for number, site in named if number in entrances}
        return self._part_sites.get(id(called), "")

    def hooked(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return the module that takes the hooks: the outermost wrapper, whose call is never compiled away."""
        return self._outermost.get(id(module), module)

    def is_visible(self, module: torch.nn.Module) -> bool:
        """Return whether hooks see the module's calls, which are not compiled away."""
        return id(module) not in self._hidden

    def entrances(self) -> Iterator[torch.nn.Module]:
        """Yield the modules whose calls are forwards of the model, and take hooks.

        That is the model itself, or the parts of one that only lists them. A model with a `training_step` may call its
        parts there instead of itself.
        """
        return filter(takes_hooks, self._called())

    def has_unseen_entrances(self) -> bool:
        """Return whether any module whose calls are forwards of the model takes no hooks."""
        return not all(map(takes_hooks, self._called()))

    def _called(self) -> Iterator[torch.nn.Module]:
        model = self.modules[""]
        waiting = [model]
        while waiting:
            module = waiting.pop(0)
            is_a_list = _is_a_list(module)
            if not is_a_list:
                yield self.hooked(module)
            has_called_parts = module is model and hasattr(model, "training_step")
            if is_a_list or has_called_parts or any(module is listed for listed in self._listed):
                waiting += module.children()


def takes_hooks(module: torch.nn.Module) -> bool:
    """Return whether hooks can be registered on the module; what `torch.jit.script` returns has none."""
    return not isinstance(module, torch.jit.RecursiveScriptModule)


def models_beside(model: torch.nn.Module) -> list[str]:
    """Return the classes of the process's other models: outermost modules with trainable parameters."""
    inside = {id(module) for module in model.modules()}
    objects = (item for item in objects_of(torch.nn.Module) if id(item) not in inside)
    trained = [module for module in objects if any(parameter.requires_grad for parameter in module.parameters())]
    parts = {id(part) for module in trained for part in module.modules() if part is not module}
    around = [
        module
        for module in trained
        if id(module) not in parts and all(id(part) not in inside for part in module.modules())
    ]
    return [type(module).__name__ for module in around]


def owners_of(modules: Mapping[str, torch.nn.Module]) -> list[tuple[str, torch.nn.Module, str]]:
    """Return site, module and attribute of every parameter; a shared one is listed under each of its sites."""
    return [
        (printable(f"{site}.{name}" if site else name), module, name)
        for site, module in modules.items()
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]


def parameters_of(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Yield site and parameter, in model order, each parameter once."""
    for name, parameter in model.named_parameters():
        yield _site_of(name), parameter


def _is_a_list(module: torch.nn.Module) -> bool:
    """Return whether the module cannot be called, only its parts."""
    if isinstance(module, torch.jit.ScriptModule):  # whose class does not say what its `forward` is
        return False
    return type(module).forward is torch.nn.Module.forward and any(True for _ in module.children())


def _inside_of_its_graph(module: torch.nn.Module, outermost: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules whose calls are compiled away with the call of this one, outermost first."""
    if getattr(module, "_compiled_call_impl", None) is not None:  # by `module.compile()`, together with the hooks
        return list(module.modules())
    if hasattr(outermost, "_orig_mod"):  # by `torch.compile(module)`, whose wrapper runs outside of the graph
        return list(module.modules())[1:]
    return []


def _inside_of_a_script(module: torch.jit.ScriptModule) -> list[torch.nn.Module]:
    """Return the modules that Python does not call, outermost first."""
    return list(module.modules())[takes_hooks(module) :]


def _site_of(name: str) -> str:
    """Return the name without the names of wrappers."""
    return printable(".".join(part for part in name.split(".") if part not in _WRAPPERS))


def inner_model(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model inside of DistributedDataParallel, whose copies would communicate."""
    inner = model.module if type(model).__name__ in ("DistributedDataParallel", "DataParallel") else model
    return inner if isinstance(inner, torch.nn.Module) else model
