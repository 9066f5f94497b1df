"""Turns an exception into one line on stderr and an exit code."""

import re
from typing import Final

WRONG_USE: Final = 2
STORE_UNREADABLE: Final = 3
OUR_FAULT: Final = 70
INTERRUPTED: Final = 130


class WrongUse(ValueError):
    """The command was called with wrong arguments."""


class Interrupted(RuntimeError):
    """The user stopped the command, and its results so far are saved.

    This is no `KeyboardInterrupt`, since typer exits on that without the message.
    """


def describe(error: BaseException) -> tuple[int, str]:
    """Return the exit code, and one line that says what was expected, what came and what to do."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return INTERRUPTED, f"mindscope: {error}" if str(error) else "mindscope: interrupted"
    from ..storage.errors import without_passwords

    code = _exit_code(error)
    text = _readable(without_passwords(" ".join(_message(error).split())))
    if code == OUR_FAULT:
        text = f"unexpected {type(error).__name__}: {text}; this is a fault of mindscope, see it whole with --debug"
    return code, f"mindscope: {text}"


#: The longest word, and the longest message, that is shown whole (our choices). A message ends with what to do.
_LONGEST_WORD: Final = 300
_LONGEST: Final = 4000


def _readable(text: str) -> str:
    """Return the message with names and values of thousands of characters cut, its end kept."""
    text = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:60]}...{word[0][-20:]}", text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 600]} ... {text[-500:]}"


def _exit_code(error: BaseException) -> int:
    from ..storage.errors import InvalidName, RunNotFound, StoreError

    if isinstance(error, StoreError) and not isinstance(error, RunNotFound | InvalidName):
        return STORE_UNREADABLE
    if isinstance(error, WrongUse | RunNotFound | InvalidName) or _is_usage_error(error):
        return WRONG_USE
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return WRONG_USE
    if isinstance(error, OSError) and error.filename is not None:  # a path that is too long, a full disk
        return WRONG_USE
    ours = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    return WRONG_USE if ours and isinstance(error, ValueError | LookupError | TypeError | OSError) else OUR_FAULT


def _is_usage_error(error: BaseException) -> bool:
    """Recognise Typer's own errors by their shape: the class lives in click or in typer, depending on the version."""
    return getattr(error, "exit_code", None) == WRONG_USE and hasattr(error, "format_message")


def _message(error: BaseException) -> str:
    if _is_usage_error(error):
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", "mindscope")
        message: str = error.format_message()  # type: ignore[attr-defined]
        return f"{message.rstrip('.')}; see '{path} --help'"
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    return str(error) or type(error).__name__
