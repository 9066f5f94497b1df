"""Which sites a list of patterns selects."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from ...storage.errors import nearest
from ...storage.metric_series import display_site
from ...storage.watch_conditions import parse_condition
from ..errors import SiteNotFound
from ..process_ranks import process_rank
from .config import Config

_log = logging.getLogger(__name__)

#: Subjects at sites of the model; batches, collectives and users' quantities have other sites.
_OF_THE_MODEL: Final = frozenset(
    ("input", "input_grad", "activation", "activation_grad", "weight", "gradient", "optimizer", "update", "attention")
)
_MOST_NAMED: Final = 4


def select_sites(sites: Sequence[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the sites that match a pattern, in their own order.

    Patterns are shell globs over the whole dotted name: `decoder.*`, `*.attn.q_proj`; the root is `(model)`, and `*`
    matches everything, dots included.

    Raises:
        SiteNotFound: A pattern matches no site; names the nearest one.
    """
    wanted = _matching(sites, patterns)
    return tuple(site for site in sites if display_site(site) in wanted)


def choose_sites(
    modules: Mapping[str, object],
    parameters: Sequence[str],
    config: Config,
    *,
    is_late: bool = False,
    is_under_way: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the modules and parameters that the configuration selects; a pattern that matches none is an error.

    Patterns of watchpoints, whole tensors, routers and frozen sites only cause a warning where several processes train:
    the site may be on another rank.

    Args:
        modules: The modules themselves by site; `types` asks for the names of their classes.
        is_late: These turned up during the run; patterns need not match them.
        is_under_way: The run has begun; patterns that cannot change any more were checked before.

    Raises:
        SiteNotFound: A pattern or an exclusion matches nothing, or nothing is left.
    """
    everything = [*modules, *parameters]
    if not is_late:
        select_sites(everything, config.exclude)
        select_sites(list(modules), config.modules)
        select_sites(parameters, config.parameters)
        if modules:
            _check_types(modules, config.types)
        _check_others(everything, _watched(config))
        if not is_under_way:
            _check_others(everything, _kept(config))
            _check_others(list(modules), _routed(config))
    wanted = [site for site, module in modules.items() if _is_of_type(module, config.types) and _is_near(site, config)]
    chosen = tuple(
        tuple(site for site in sites if _is_chosen(display_site(site), patterns, config.exclude))
        for sites, patterns in ((wanted, config.modules), (parameters, config.parameters))
    )
    if everything and not any(chosen) and not is_late:
        raise SiteNotFound("the exclusions leave no site to record; drop one of them or widen the patterns")
    return chosen[0], chosen[1]


def _check_others(sites: Sequence[str], patterns: Iterable[tuple[str, str]]) -> None:
    for key, pattern in patterns:
        try:
            select_sites(sites, [pattern])
        except SiteNotFound as error:
            if process_rank().size == 1:
                raise SiteNotFound(f"{key}: {error}") from None
            _log.warning("%s: %s; it has no effect on this rank", key, error)


def _watched(config: Config) -> Iterator[tuple[str, str]]:
    """Yield key and pattern of each watchpoint on a part of the model."""
    for at, watch in enumerate(config.watchpoints):
        condition = parse_condition(watch.when)
        if condition.subject.partition("/")[0] in _OF_THE_MODEL:
            yield f"watchpoints[{at}]", condition.sites


def _kept(config: Config) -> Iterator[tuple[str, str]]:
    """Yield key and pattern of dumped tensors and frozen sites; indexed tensors of a module are checked later."""
    for key, patterns in (
        ("dump.sites", config.dump.sites if config.dump is not None else ()),
        ("flight_recorder.tensors", config.flight_recorder.tensors if config.flight_recorder is not None else ()),
    ):
        yield from ((key, pattern) for pattern in patterns if "[" not in pattern)
    yield from (("expected_frozen", pattern) for pattern in config.expected_frozen)


def _routed(config: Config) -> Iterator[tuple[str, str]]:
    """Yield key and pattern of each router, which is a module."""
    for at, router in enumerate(config.routers):
        yield from ((f"routers[{at}].sites", pattern) for pattern in router.sites)


def _check_types(modules: Mapping[str, object], patterns: Iterable[str]) -> None:
    names = sorted({type(module).__name__ for module in modules.values()})
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SiteNotFound(f"type {pattern!r} is none of this model's{nearest(pattern, names)}: {', '.join(names)}")


def _is_of_type(module: object, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(type(module).__name__, pattern) for pattern in patterns)


def _is_near(site: str, config: Config) -> bool:
    return config.depth is None or (site.count(".") + 1 if site else 0) <= config.depth


def _is_chosen(name: str, patterns: Iterable[str], exclude: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns) and not any(
        fnmatchcase(name, pattern) for pattern in exclude
    )


def _matching(sites: Sequence[str], patterns: Iterable[str]) -> set[str]:
    names = [display_site(site) for site in sites]
    matched: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found and pattern != "*":
            near = nearest(pattern, names) or nearest(pattern.strip("*?."), names) or _some(names)
            raise SiteNotFound(f"pattern {pattern!r} matches none of {len(names)} sites{near}")
        matched |= found
    return matched


def _some(names: Sequence[str]) -> str:
    more = " and more" if len(names) > _MOST_NAMED else ""
    return f"; there are {', '.join(names[:_MOST_NAMED])}{more}" if names else ""
