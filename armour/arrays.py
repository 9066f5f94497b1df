"""The old name of `array_api`, which works for one more release with a warning."""

import warnings

from . import array_api

_NEW = {"drawn": "like_array"}


def __getattr__(name: str) -> object:
    """Find the name in `array_api` and warn."""
    new = _NEW.get(name, name)
    found: object = getattr(array_api, new)
    warnings.warn(
        f"mindscope.armour.arrays.{name} is now mindscope.armour.array_api.{new}; "
        f"the next release removes the old name",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
