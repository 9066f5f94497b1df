"""Which site of one run is which site of another: by name, with or without a wrapper's prefix, or by place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ...storage import Structure

__all__ = ["Alignment", "align"]

#: What wrappers put in front of names: DataParallel and DDP, torch.compile, FSDP.
_PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of sites.

    Args:
        pairs: Site of the first run, site of the second.
        only_first: Sites that the second run has no counterpart for.
        only_second: The reverse.
    """

    pairs: Mapping[str, str] = field(default_factory=dict)
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()

    @property
    def renamed(self) -> dict[str, str]:
        """The pairs whose names differ."""
        return {first: second for first, second in self.pairs.items() if first != second}


def align(first: Structure, second: Structure) -> Alignment:
    """The pairs of modules and of parameters of two models; sites of neither are equal by name alone.

    Names decide as far as they go. What is left is matched in the order of the model: modules of one class, parameters
    of one shape, as the longest common subsequence has them.
    """
    modules = _aligned([one.site for one in first.modules], [one.site for one in second.modules], _kinds(first, second))
    parameters = _aligned(
        [one.site for one in first.parameters], [one.site for one in second.parameters], _shapes(first, second)
    )
    return Alignment(
        {**modules.pairs, **parameters.pairs},
        (*modules.only_first, *parameters.only_first),
        (*modules.only_second, *parameters.only_second),
    )


def _kinds(first: Structure, second: Structure) -> tuple[dict[str, object], dict[str, object]]:
    return {one.site: one.kind for one in first.modules}, {one.site: one.kind for one in second.modules}


def _shapes(first: Structure, second: Structure) -> tuple[dict[str, object], dict[str, object]]:
    return {one.site: one.shape for one in first.parameters}, {one.site: one.shape for one in second.parameters}


def _bare(site: str) -> str:
    """The name without what wrappers add, wherever it stands; a wrapper's own site is that of the model."""
    for prefix in _PREFIXES:
        site = site.replace(prefix, "")
        if site == prefix[:-1]:
            return ""
    return site


def _aligned(
    first: Sequence[str], second: Sequence[str], words: tuple[Mapping[str, object], Mapping[str, object]]
) -> Alignment:
    pairs = {site: site for site in first if site in set(second)}
    by_bare: dict[str, str] = {}
    for site in second:
        if site not in pairs.values():
            by_bare.setdefault(_bare(site), site)
    for site in first:
        if site not in pairs and (other := by_bare.pop(_bare(site), None)) is not None:
            pairs[site] = other
    taken = set(pairs.values())
    left = [site for site in first if site not in pairs]
    right = [site for site in second if site not in taken]
    matcher = SequenceMatcher(None, [words[0][s] for s in left], [words[1][s] for s in right], autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs.update(zip(left[block.a : block.a + block.size], right[block.b : block.b + block.size], strict=True))
    taken = set(pairs.values())
    return Alignment(
        pairs,
        tuple(site for site in first if site not in pairs),
        tuple(site for site in second if site not in taken),
    )
