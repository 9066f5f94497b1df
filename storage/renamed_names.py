"""Old names of the public API, kept for one release with a warning."""

import sys
import warnings
from collections.abc import Callable, Mapping


def renamed(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module `__getattr__` that finds objects by their old names and warns.

    Args:
        package: Name of the package that exported them.
        names: New name by old name.
    """

    def lookup(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(
            f"{package}.{name} is now {package}.{names[name]}; the next release removes the old name",
            DeprecationWarning,
            stacklevel=2,
        )
        found: object = getattr(sys.modules[package], names[name])
        return found

    return lookup
