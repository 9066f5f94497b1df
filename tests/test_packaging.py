"""The package list, the lock files and the extras say what is on disk."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OUTSIDE = ("tests", "benchmarks", "examples", "docs", "build", "runs")


def packages_on_disk() -> list[str]:
    found = ["mindscope"]
    for init in ROOT.rglob("__init__.py"):
        folder = init.parent.relative_to(ROOT)
        if folder.parts and not folder.parts[0].startswith(".") and folder.parts[0] not in OUTSIDE:
            found.append(".".join(("mindscope", *folder.parts)))
    return sorted(found)


def requirement_name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def imported_names() -> set[str]:
    names: set[str] = set()
    for package in packages_on_disk():
        folder = ROOT.joinpath(*package.split(".")[1:])
        for path in folder.glob("*.py"):
            names.update(re.findall(r"^\s*(?:import|from) ([a-z_A-Z]\w*)", path.read_text(), re.M))
    return names


def test_the_package_list_equals_the_folders_on_disk() -> None:
    assert PROJECT["tool"]["setuptools"]["packages"] == packages_on_disk()


def test_every_base_dependency_is_imported_somewhere() -> None:
    module_of = {"pyyaml": "yaml", "ml-dtypes": "ml_dtypes"}
    imported = imported_names()
    names = [requirement_name(requirement) for requirement in PROJECT["project"]["dependencies"]]
    unused = [name for name in names if module_of.get(name, name.replace("-", "_")) not in imported]
    assert not unused


def test_the_lock_pins_every_dependency_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = {line.split("==")[0] for line in lock.splitlines() if "==" in line and not line.startswith(" ")}
    wanted = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["demo"]
    assert {requirement_name(requirement) for requirement in wanted} <= pinned
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_two_locks_agree() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / name).read_text()
        return {line.rstrip(" \\") for line in text.splitlines() if "==" in line and not line.startswith(" ")}

    assert pins("requirements.lock") <= pins("requirements-test.lock")


def test_the_extras_are_the_promised_ones() -> None:
    promised = {
        "torch",
        "trainers",
        "mindspore",
        "xla",
        "postgres",
        "nats",
        "kafka",
        "armour",
        "cluster",
        "bench",
        "cuda",
        "test",
        "demo",
        "onnx",
        "parquet",
        "metrics",
        "privacy",
        "tune",
    }
    assert set(PROJECT["project"]["optional-dependencies"]) == promised


def test_the_version_stands_once() -> None:
    init = (ROOT / "__init__.py").read_text()
    assert f'__version__ = "{PROJECT["project"]["version"]}"' in init
