"""Where: which sites a list of patterns picks."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from ...storage.errors import nearest
from ...storage.names import display_site
from ..errors import SiteNotFound
from .config import Config


def select_sites(sites: Sequence[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """The sites that match a pattern, in their own order.

    Patterns are shell globs over the whole dotted name: `decoder.*`, `*.attn.q_proj`; the root is `(model)`, and `*`
    matches everything, dots included.

    Raises:
        SiteNotFound: A pattern matches no site; names the nearest one.
    """
    wanted = _matching(sites, patterns)
    return tuple(site for site in sites if display_site(site) in wanted)


def choose_sites(
    modules: Mapping[str, object], parameters: Sequence[str], config: Config, *, is_late: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules and the parameters that the configuration picks.

    Args:
        modules: The modules themselves by site; `types` asks for the names of their classes.
        is_late: These turned up during the run; patterns need not match them.

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
    wanted = [site for site, module in modules.items() if _is_of_type(module, config.types) and _is_near(site, config)]
    chosen = tuple(
        tuple(site for site in sites if _is_chosen(display_site(site), patterns, config.exclude))
        for sites, patterns in ((wanted, config.modules), (parameters, config.parameters))
    )
    if everything and not any(chosen) and not is_late:
        raise SiteNotFound("the exclusions leave no site to record; drop one of them or widen the patterns")
    return chosen[0], chosen[1]


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
    return any(fnmatchcase(name, one) for one in patterns) and not any(fnmatchcase(name, one) for one in exclude)


def _matching(sites: Sequence[str], patterns: Iterable[str]) -> set[str]:
    names = [display_site(site) for site in sites]
    matched: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found and pattern != "*":
            raise SiteNotFound(f"pattern {pattern!r} matches none of {len(names)} sites{nearest(pattern, names)}")
        matched |= found
    return matched
