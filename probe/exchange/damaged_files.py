"""Damage in a file of another tool becomes one line that names the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..errors import ImportFailed

__all__ = ["reading"]

#: What pandas, pyarrow, TensorBoard and SQLite raise for a file that is damaged, or of another format. It takes many
#: kinds, since these readers check little themselves.
_DAMAGE: Final[tuple[type[Exception], ...]] = (
    *(ValueError, OSError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError),
)


@contextmanager
def reading(file: Path, words: str, *also: type[Exception]) -> Iterator[None]:
    """Read a file of another tool in the body.

    Args:
        words: What is wrong if the body raises, such as `cannot be read as CSV`.
        also: Further errors of the library that reads it.

    Raises:
        ImportFailed: The body raised one of the errors of damage; an `ImportFailed` passes as it is.
    """
    try:
        yield
    except ImportFailed:
        raise
    except (*_DAMAGE, *also) as error:
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ImportFailed(f"{file} {words}: {said}") from error
