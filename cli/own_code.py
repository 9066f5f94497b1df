"""Code of the user's own that a command runs: what it raises is told with its place, and is no fault of ours."""

import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

from .failures import WrongUse

_PACKAGE = __name__.partition(".")[0]


@contextmanager
def own_code(failed: str) -> Iterator[None]:
    """While it is open, code of the user's own runs.

    Args:
        failed: What has failed where that code raises, the begin of the sentence.

    Raises:
        WrongUse: The code raised, or left by `sys.exit`; file, line and error are named.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        said = str(error.msg if isinstance(error, SyntaxError) else error)
        what = f"{type(error).__name__}: {said}" if said else type(error).__name__
        raise WrongUse(f"{failed}: {_place(error)}{what}; mend it there, or see it whole with --debug") from error


def _place(error: BaseException) -> str:
    """File and line of what was raised: the innermost of the user's, or else of any, code; empty without any."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}, "
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] != _PACKAGE
        and not frame.f_code.co_filename.startswith("<")
    ]
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = [one for one in frames if not libraries.intersection(Path(one[0]).parents)]
    for file, line in reversed(own or frames):
        return f"{file}, line {line}, "
    return ""
