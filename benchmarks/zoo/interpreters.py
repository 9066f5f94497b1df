"""Environments of the zoo: a Python for each group of packages, made once in a folder outside the checkout."""

import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import torch

_OURS = "MINDSCOPE_ZOO_PACKAGES"


def cache_folder() -> Path:
    """Return where environments and results are kept: `$MINDSCOPE_ZOO`, else a folder of the user's cache."""
    given = os.environ.get("MINDSCOPE_ZOO")
    return Path(given) if given else Path.home() / ".cache" / "mindscope" / "zoo"


def interpreter(packages: tuple[str, ...], cache: Path) -> Path:
    """Return a Python that has these packages beside what this process has, PyTorch among it; install them if need be.

    Raises:
        RuntimeError: They cannot be installed; the message has the end of what pip said.
    """
    if not packages:
        return Path(sys.executable)
    pins = "\n".join((*packages, f"torch=={torch.__version__}", sys.version))
    home = cache / "environments" / hashlib.sha256(pins.encode()).hexdigest()[:16]
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        _join_with_ours(home)
        install(python, packages, home)
        ready.touch()
    return python


def our_packages() -> dict[str, str]:
    """Return the variable that tells an environment where this process has PyTorch and mindscope.

    Environments are shared by all checkouts of a machine, so none of them may know a checkout.
    """
    return {_OURS: sysconfig.get_paths()["purelib"]}


def _join_with_ours(home: Path) -> None:
    """Let the environment see what the process that runs it sees, so that nothing is installed twice."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    line = f"import os, site; {_OURS!r} in os.environ and site.addsitedir(os.environ[{_OURS!r}])\n"
    (home / "lib" / version / "site-packages" / "ours.pth").write_text(line, encoding="utf-8")


def install(python: Path, packages: tuple[str, ...], home: Path) -> None:
    """Install packages for a Python, with PyTorch held at this process's version by a file in `home`.

    Raises:
        RuntimeError: They cannot be installed; the message has the end of what pip said.
    """
    constraint = home / "constraint.txt"
    constraint.write_text(f"torch=={torch.__version__}\n", encoding="utf-8")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    environment = {**os.environ, **our_packages(), "PIP_CONSTRAINT": str(constraint)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip cannot install {', '.join(packages)} into {home}: {done.stderr[-400:].strip()}")
