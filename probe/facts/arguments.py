"""What a script was called with, without what nobody should find in a store."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

HIDDEN: Final = "***"
#: Words in the name of an argument whose value nobody should find in a store.
_SECRET: Final = re.compile("secret|passw|credential|auth(?!or)|cookie")
#: The same, unless the value is a count: `--max-tokens 512` and `--key-dim 64` are settings.
_PERHAPS: Final = re.compile("token(?!i[sz]er)|key")
_COUNT: Final = re.compile("[0-9]{1,7}")
#: `-x`, `--name`, `name` and, of Hydra, `+group.name`.
_NAME: Final = re.compile(r"[-+~]{0,2}[A-Za-z_][\w./-]*")
_PASSWORD: Final = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")
#: Our choice: nobody compares more words, or longer ones.
_MOST, _LONGEST = 200, 200


def script_arguments(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments of a script's call as it had them, with secrets hidden; none of those of a notebook's kernel.

    Hidden are the value of an argument whose name tells of a secret (`--api-key X`, `--token=X`, `hub.token=X`) and the
    password of an address.

    Args:
        argv: As `sys.argv`, the script's own name first.
    """
    if not argv or Path(argv[0]).name.endswith("kernel_launcher.py"):
        return ()
    words = [word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..." for word in _without_secrets(argv[1:])]
    rest = len(words) - _MOST
    return (*words[:_MOST], f"... and {rest} more") if rest > 0 else tuple(words)


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    waiting = ""  # the name whose value may come next
    for word in words:
        name, equals, value = word.partition("=")
        if waiting and not word.startswith("--") and _is_secret(waiting, word):
            waiting = ""
            yield HIDDEN
        elif equals and _NAME.fullmatch(name):
            waiting = ""
            yield f"{name}={HIDDEN if _is_secret(name, value) else _open(value)}"
        else:
            waiting = word if word.startswith("-") else ""
            yield _open(word)


def _is_secret(name: str, value: str) -> bool:
    name = name.lower()
    return bool(_SECRET.search(name) or (_PERHAPS.search(name) and not _COUNT.fullmatch(value)))


def _open(word: str) -> str:
    return _PASSWORD.sub(rf"\1:{HIDDEN}@", word)
