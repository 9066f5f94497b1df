"""Environments of the zoo: a Python for each group of packages, made once in a folder outside the checkout.

A requirement is a package that pip installs, or `github:OWNER/NAME@COMMIT`: a repository whose files are imported as
they are, as by somebody who works in a clone of it.
"""

import hashlib
import os
import runpy
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

import torch

_OURS = "MINDSCOPE_ZOO_PACKAGES"
_GITHUB = "github:"


def cache_folder() -> Path:
    """Return where environments and results are kept: `$MINDSCOPE_ZOO`, else a folder of the user's cache."""
    given = os.environ.get("MINDSCOPE_ZOO")
    return Path(given) if given else Path.home() / ".cache" / "mindscope" / "zoo"


def interpreter(packages: tuple[str, ...], cache: Path) -> Path:
    """Return a Python that has these packages beside what this process has, PyTorch among it; install them if need be.

    Raises:
        RuntimeError: They cannot be installed or cloned; the message has the end of what pip or git said.
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
        install(python, [one for one in packages if not one.startswith(_GITHUB)], home)
        for repository in (one.removeprefix(_GITHUB) for one in packages if one.startswith(_GITHUB)):
            _join_with_repository(home, *repository.split("@"))
        ready.touch()
    return python


def in_clone(program: Path, python: Path) -> Path:
    """Return the program as a file of the environment's clone, as who works there has it; itself without a clone."""
    named = _site_packages(python.parents[1]) / "zoo_repository.py"
    if not named.exists():
        return program
    copy = Path(runpy.run_path(str(named))["FOLDER"], f"zoo_{program.name}")
    copy.write_bytes(program.read_bytes())
    return copy


def our_packages() -> dict[str, str]:
    """Return the variable that tells an environment where this process has PyTorch and mindscope.

    Environments are shared by all checkouts of a machine, so none of them may know a checkout.
    """
    return {_OURS: sysconfig.get_paths()["purelib"]}


def _join_with_ours(home: Path) -> None:
    """Let the environment see what the process that runs it sees, so that nothing is installed twice."""
    line = f"import os, site; {_OURS!r} in os.environ and site.addsitedir(os.environ[{_OURS!r}])\n"
    (_site_packages(home) / "ours.pth").write_text(line, encoding="utf-8")


def _join_with_repository(home: Path, name: str, commit: str) -> None:
    """Clone a repository and put its folder on the path of an environment; `zoo_repository.FOLDER` names it there.

    Raises:
        RuntimeError: It cannot be cloned, or has no such commit; the message has the end of what git said.
    """
    clone = home / name.replace("/", "+")
    for command in (
        ["git", "clone", "--quiet", f"https://github.com/{name}", str(clone)],
        ["git", "-C", str(clone), "checkout", "--quiet", "--detach", commit],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"git cannot give {name} at {commit}: {done.stderr[-400:].strip()}")
    packages = _site_packages(home)
    (packages / "repository.pth").write_text(f"{clone}\n", encoding="utf-8")
    (packages / "zoo_repository.py").write_text(f"FOLDER = {str(clone)!r}\n", encoding="utf-8")


def _site_packages(home: Path) -> Path:
    return home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def install(python: Path, packages: Sequence[str], home: Path) -> None:
    """Install packages for a Python, with PyTorch held at this process's version by a file in `home`.

    Raises:
        RuntimeError: They cannot be installed; the message has the end of what pip said.
    """
    if not packages:
        return
    constraint = home / "constraint.txt"
    constraint.write_text(f"torch=={torch.__version__}\n", encoding="utf-8")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    environment = {**os.environ, **our_packages(), "PIP_CONSTRAINT": str(constraint)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip cannot install {', '.join(packages)} into {home}: {done.stderr[-400:].strip()}")
