"""The model's structure, indexed for questions that rules ask: who owns a parameter, who consumes an output."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, ModuleInfo, ParameterInfo, Structure

#: Parameters that no optimizer is meant to move: the running statistics of normalisation layers.
_BUFFERS = frozenset({"moving_mean", "moving_variance", "running_mean", "running_var", "num_batches_tracked"})
#: What weight normalisation calls the magnitudes of a matrix's rows, which have its number of axes.
_MAGNITUDES = ("weight_g", ".original0")
_MATRIX_KINDS = ("dense", "linear", "conv", "attention", "rnn", "lstm", "gru")


class ModelIndex:
    """The model's structure, indexed for the questions that rules ask; empty when none was recorded.

    Args:
        structure: As the probe recorded it.
        expected_frozen: Globs of sites that are frozen, or left out of the optimizer, on purpose.
    """

    def __init__(self, structure: Structure, expected_frozen: tuple[str, ...] = ()) -> None:
        self.structure = structure
        self.modules: dict[str, ModuleInfo] = {module.site: module for module in structure.modules}
        self.parameters: dict[str, ParameterInfo] = {item.site: item for item in structure.parameters}
        self._expected_frozen = expected_frozen
        self._consumers: dict[str, tuple[str, ...]] = {}
        self._matrices: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._tables: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._flowing: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._ordered: dict[tuple[int, int], NDArray[np.intp]] = {}
        for module in sorted(structure.modules, key=lambda module: module.order):
            for source in module.inputs:
                self._consumers[source] = (*self._consumers.get(source, ()), module.site)

    @property
    def is_known(self) -> bool:
        """True once the parameters of the model were recorded."""
        return bool(self.parameters)

    def owner(self, site: str) -> str:
        """Return the module that a parameter belongs to; a module is its own owner."""
        return site if site in self.modules else site.rpartition(".")[0]

    def order(self, site: str) -> int:
        """Position of the site's module among the calls of the first forward; -1 when it is not known."""
        module = self.modules.get(self.owner(site))
        return -1 if module is None else module.order

    def has_weights(self, site: str) -> bool:
        """True when the module, or one inside it, has parameters of its own."""
        return any(name == site or name.startswith(f"{site}.") for name in self.parameters)

    def kind(self, site: str) -> str:
        """Class name of the site's module, in lower case; empty when it is not known."""
        module = self.modules.get(self.owner(site))
        return "" if module is None else module.kind.lower()

    @cached_property
    def last_layer(self) -> int:
        """Position in the call order of the last module with parameters of its own; -1 when none is known."""
        return max((self.order(site) for site in self.parameters), default=-1)

    @cached_property
    def outside(self) -> int:
        """How many parameters require a gradient and are in no optimizer."""
        return sum(item.requires_grad and item.group is None for item in self.parameters.values())

    @cached_property
    def outputs(self) -> int:
        """Width of the last weight matrix in the call order; 0 when none is known."""
        matrices = [item for item in self.parameters.values() if self.is_matrix(item.site)]
        last = max(matrices, key=lambda item: self.order(item.site), default=None)
        return 0 if last is None or self.order(last.site) < 0 else int(last.shape[0])

    @cached_property
    def first_kinds(self) -> frozenset[str]:
        """Class names, in lower case, of the leaf modules that were called first: in the whole model, and in each
        network of it that is called by itself."""
        leaves = [module for module in self.modules.values() if module.is_leaf and module.order >= 0]
        first: dict[str, ModuleInfo] = {}
        for module in sorted(leaves, key=lambda module: module.order, reverse=True):
            first[module.site.partition(".")[0] if self.has_players else ""] = module
        return frozenset(module.kind.lower() for module in first.values())

    @cached_property
    def has_players(self) -> bool:
        """True when several optimizers step networks that have no top-level module in common: each has its own loss."""
        owners: dict[str, set[int]] = {}
        for item in self.parameters.values():
            if item.group is not None:
                owners.setdefault(item.site.partition(".")[0], set()).add(item.group[0])
        numbers = set().union(*owners.values()) if owners else set()
        return len(numbers) > 1 and all(len(optimizers) == 1 for optimizers in owners.values())

    def consumers(self, site: str) -> tuple[str, ...]:
        """Return the modules that took the site's output as an input, in call order."""
        return self._consumers.get(site, ())

    def is_an_end(self, site: str, *, within: str = "") -> bool:
        """Return True if no module with parameters takes the output of the site's module, directly or through others.

        The module must have been called. Modules inside `within` do not count."""
        seen: set[str] = set()
        waiting = [self.owner(site)]
        while waiting:
            takers = [taker for taker in self.consumers(waiting.pop()) if taker not in seen]
            if any(self.has_weights(taker) and not (within and _is_in(taker, within)) for taker in takers):
                return False
            seen.update(takers)
            waiting += takers
        return bool(within) or self.order(site) >= 0

    def inputs(self, site: str) -> tuple[str, ...]:
        """Return the modules whose output the site took as an input."""
        module = self.modules.get(site)
        return () if module is None else module.inputs

    def is_matrix(self, site: str) -> bool:
        """True for the weights of matrix products and convolutions: not for biases, gains and embeddings."""
        info = self.parameters.get(site)
        if info is None:
            return site.endswith("weight") and "norm" not in site and "embed" not in site
        is_magnitude = site.endswith(_MAGNITUDES) and sum(size > 1 for size in info.shape) <= 1
        if len(info.shape) < 2 or is_magnitude:
            return False
        kind = self.kind(site)
        return not kind or any(word in kind for word in _MATRIX_KINDS) or not ("embed" in kind or "norm" in kind)

    @cached_property
    def has_no_matrix(self) -> bool:
        """True when the parameters are known, and none is a matrix of a product: scalars, vectors and embeddings."""
        return bool(self.parameters) and not any(map(self.is_matrix, self.parameters))

    def is_linear_map(self, site: str) -> bool:
        """True for the weights of modules known to be dense layers, convolutions, attention or recurrences."""
        return self.is_matrix(site) and any(word in self.kind(site) for word in _MATRIX_KINDS)

    def matrices_in_order(self, sites: list[str]) -> NDArray[np.intp]:
        """Return the rows of the weight matrices among the sites, in call order if it is known."""
        key = (id(sites), len(sites))
        if key not in self._ordered:
            rows = np.flatnonzero(self.matrices(sites))
            self._ordered[key] = np.array(sorted(rows, key=lambda row: self.order(sites[row])), dtype=np.intp)
        return self._ordered[key]

    def decayed(self, sites: list[str]) -> NDArray[np.intp]:
        """Return the rows of the weight matrices; of a model that has none, of its tables wider than one column."""
        if not self.has_no_matrix:
            return self.matrices_in_order(sites)
        return np.flatnonzero(self._remembered(self._tables, sites, self._is_table))

    def _is_table(self, site: str) -> bool:
        shape = self.parameters[site].shape if site in self.parameters else ()
        return len(shape) == 2 and min(shape) > 1

    def matrices(self, sites: list[str]) -> NDArray[np.bool_]:
        """`(sites,)` True where `is_matrix`; remembered for a list that only grows."""
        return self._remembered(self._matrices, sites, self.is_matrix)

    def flowing(self, sites: list[str]) -> NDArray[np.bool_]:
        """`(sites,)` True where a gradient can reach a parameter; remembered likewise.

        A frozen one that no optimizer holds may keep that of an earlier phase.
        """
        return self._remembered(self._flowing, sites, self._is_reached)

    def _is_reached(self, site: str) -> bool:
        item = self.parameters.get(site)
        return item is None or item.requires_grad or item.group is not None

    def _remembered(
        self, known: dict[tuple[int, int], NDArray[np.bool_]], sites: list[str], holds: Callable[[str], bool]
    ) -> NDArray[np.bool_]:
        key = (id(sites), len(sites))
        if key not in known:
            known[key] = np.array([holds(site) for site in sites], dtype=np.bool_)
        return known[key]

    def is_expected_frozen(self, site: str) -> bool:
        """True when the run's configuration declares the site, or a module around it, as frozen on purpose."""
        parents = list(_ancestors(site))
        return any(fnmatchcase(name, glob) for glob in self._expected_frozen for name in parents)

    def is_trainable(self, parameter: ParameterInfo) -> bool:
        """True for parameters that somebody may expect to be trained: not running statistics, not declared frozen."""
        return parameter.site.rpartition(".")[2] not in _BUFFERS and not self.is_expected_frozen(parameter.site)

    def gather(self, parameters: tuple[ParameterInfo, ...]) -> dict[str, tuple[ParameterInfo, ...]]:
        """Group the parameters under the widest modules that contain only given parameters.

        A parameter whose module has others that are not given stands under its own site.
        """
        given = {item.site for item in parameters}
        others = {name for item in self.parameters.values() if item.site not in given for name in _ancestors(item.site)}
        found: dict[str, tuple[ParameterInfo, ...]] = {}
        for item in parameters:
            names = list(_ancestors(item.site))
            widest = next((name for name in reversed(names[1:]) if name not in others), item.site)
            found[widest] = (*found.get(widest, ()), item)
        return found


def _is_in(site: str, module: str) -> bool:
    return site == module or site.startswith(f"{module}.")


def _ancestors(site: str) -> Iterator[str]:
    """Yield the site and each of its dotted prefixes, longest first; never the root."""
    while site:
        yield site
        site = site.rpartition(".")[0]


class Group(NamedTuple):
    """One group of parameters.

    Args:
        kind: Class name of its optimizer, in lower case.
        number: Its number among all groups of all optimizers, which is that of its `learning_rate`.
    """

    kind: str
    options: Mapping[str, Json]
    number: int


def rate_name(number: int) -> str:
    """Return the name of the scalar that holds the learning rate of the group with this number."""
    return f"learning_rate/{number}" if number else "learning_rate"


def first_group(model: ModelIndex, optimizer: int) -> int:
    """Return the number of an optimizer's first group among all groups of all optimizers."""
    return sum(len(earlier.groups) for earlier in model.structure.optimizers[:optimizer])


def group_of(model: ModelIndex, site: str) -> Group | None:
    """Return the group of a parameter; None if it is in none, in several, or in one that was not recorded."""
    info, optimizers = model.parameters.get(site), model.structure.optimizers
    if info is None or info.group is None or info.more_groups or info.group[0] >= len(optimizers):
        return None
    number, group = info.group
    return Group(optimizers[number].kind.lower(), optimizers[number].groups[group], first_group(model, number) + group)
