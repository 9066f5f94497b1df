"""What the configuration picks of a model: when the training begins, and when the configuration is changed."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ..configuration.select import choose_sites
from ..recording.recorder import Recorder


class _View(Protocol):
    def add(self, named: Iterable[tuple[str, Any]]) -> bool:
        """Whether any of these parameters was new; they join at the end."""

    def choose(self, named: Iterable[tuple[str, Any]]) -> None:
        """Nothing; only these are recorded from now on."""


class Selection:
    """Has the picked parameters recorded, and says which modules are to be watched.

    Args:
        modules: By site, as they are whenever they are asked for.
    """

    def __init__(self, modules: Mapping[str, Any], view: _View, recorder: Recorder) -> None:
        self._modules, self._view, self._recorder = modules, view, recorder

    def begin(self, named: Mapping[str, Any]) -> tuple[str, ...]:
        """The sites to watch from the first step on.

        Args:
            named: All parameters by their sites.

        Raises:
            SiteNotFound: A pattern matches nothing.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config)
        self._view.add((name, named[name]) for name in names)
        return sites

    def change(self, named: Mapping[str, Any]) -> tuple[str, ...]:
        """The sites to watch from now on; parameters that are picked no more are left out.

        Raises:
            SiteNotFound: A pattern matches nothing; what is recorded stays as it is.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config, is_under_way=True)
        self._view.choose((name, named[name]) for name in names)
        return sites
