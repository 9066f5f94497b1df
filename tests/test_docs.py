"""What the documents say is true: programs and commands run, links lead somewhere, figures are current."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from inspect import cleandoc
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAKE_COMMANDS = re.findall(r"^make .*$", "\n".join(re.findall(r"```sh\n(.*?)```", README, re.S)), re.M)
COMMANDS = re.findall(r"^\$ (mindscope .*)$", README, re.M)
MINDSCOPE = [sys.executable, "-m", "mindscope"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


@pytest.fixture
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader has it: the examples beside an empty place for runs."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize("command", MAKE_COMMANDS)
def test_a_make_command_of_the_readme_has_its_target(command: str) -> None:
    done = subprocess.run(f"{command} --dry-run", shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_programs_of_the_readme_run(workplace: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch (torch) is not installed")
    printed = ""
    for number, program in enumerate(blocks("python")):
        path = workplace / f"program{number}.py"
        path.write_text(program)
        done = subprocess.run([sys.executable, path], cwd=workplace, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert "20 steps; verdict:" in printed


def test_the_configuration_of_the_readme_is_valid(tmp_path: Path) -> None:
    from mindscope.probe.configuration.config_loading import load_config

    (path := tmp_path / "monitor.yaml").write_text(blocks("yaml")[0])
    assert load_config(path).schedule("optimizer").is_ever_due is False


def test_the_commands_of_the_readme_run_one_after_another(workplace: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch (torch) is not installed")
    assert len(COMMANDS) >= 10
    for command in COMMANDS:
        words = shlex.split(command)[1:]
        if words[0] == "dashboard" and "--port" in words:
            serve_until_it_answers(words, workplace)
            continue
        done = subprocess.run([*MINDSCOPE, *words], cwd=workplace, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def serve_until_it_answers(words: list[str], folder: Path) -> None:
    words = [*words[: words.index("--port")], "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*MINDSCOPE, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        deadline = time.monotonic() + 180
        address = None
        while address is None and time.monotonic() < deadline:
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert address is not None
        with urllib.request.urlopen(address.group(), timeout=120) as answer:
            assert answer.status == 200
    finally:
        process.terminate()
        process.communicate(timeout=120)


@pytest.mark.parametrize("path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_every_link_inside_the_project_leads_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text())
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_modules_and_files_that_a_contributor_is_sent_to_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    modules = re.findall(r"python -m mindscope\.([\w.]+)", text)
    packages = "armour|cli|dashboard|docs|framework|insight|probe|storage|tests"
    files = re.findall(rf"(?:{packages})/[\w/]+(?:\.py\b|/)", text)
    assert files
    paths = [*(module.replace(".", "/") + ".py" for module in modules), *files]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_page_of_benchmarks_is_generated_from_the_recorded_results() -> None:
    spec = importlib.util.spec_from_file_location("render", ROOT / "benchmarks" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    render = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(render)
    assert render.PAGE.read_text() == render.page()


def test_the_catalogue_of_primitives_is_current() -> None:
    from mindscope.framework.primitive_catalogue import primitives_page

    page = (ROOT / "docs" / "catalogue" / "primitives.md").read_text()
    assert page == primitives_page(), "run: python -m mindscope.framework.primitive_catalogue"


def test_the_catalogue_of_collectors_is_current() -> None:
    from mindscope.probe.collector_catalogue import collectors_page

    page = (ROOT / "docs" / "catalogue" / "collectors.md").read_text()
    assert page == collectors_page(), "run: python -m mindscope.probe.collector_catalogue"


def test_the_catalogue_of_collectors_defines_every_statistic_on_request() -> None:
    from mindscope.probe.collector_catalogue import requested_statistics
    from mindscope.probe.kernels import MORE

    defined = [line.split()[0] for line in requested_statistics().splitlines() if line[4:5].strip()]
    assert defined == list(MORE), "define the names of MORE in the docstring of probe/kernels/more.py, in order"


def test_the_catalogue_of_collectors_has_every_word_on_each() -> None:
    from mindscope.probe.collector_catalogue import collectors_page
    from mindscope.probe.collectors.collector import COLLECTORS

    page = " ".join(collectors_page().split())
    paragraphs = [part for one in COLLECTORS.values() for part in cleandoc(one.doc).split("\n\n")]
    assert len(paragraphs) > len(COLLECTORS) + 10
    assert [part for part in paragraphs if " ".join(part.split()) not in page] == []


def test_the_architecture_stays_one_page() -> None:
    assert (ROOT / "ARCHITECTURE.md").read_text().count("\n") <= 80


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda path: path.name)
def test_a_decision_is_short(path: Path) -> None:
    assert re.match(r"\d{4}-[a-z0-9-]+\.md", path.name)
    assert path.read_text().count("\n") <= 60


def test_promises_about_observing_name_tests_that_there_are() -> None:
    rows = re.findall(r"^\| .* \| (.*) \|$", (ROOT / "docs" / "observing.md").read_text(), re.M)
    assert len(rows) > 60
    named = [re.findall(r"`([^`]+\.py|test_\w+)`", row) for row in rows if row != "test"]
    for words in named:
        text = ""
        for word in words:
            if word.endswith(".py"):
                place = ROOT / word if word.startswith(("tests/", "benchmarks/")) else ROOT / "tests" / "probe" / word
                text = place.read_text()
            else:
                assert f"def {word}(" in text, word
    assert sum(map(len, named)) > 90
