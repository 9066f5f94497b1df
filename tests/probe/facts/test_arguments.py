"""What a script was called with is recorded, but for what is secret."""

import shlex

import pytest
from mindscope.probe.facts.environment import script_arguments


def told(line: str) -> str:
    return " ".join(script_arguments(["train.py", *shlex.split(line)]))


@pytest.mark.parametrize(
    "line",
    [
        "--lr 3 --fast -v data.yaml",
        "--lr=-3e-4 --out runs/a=b",
        "+model.depth=4 ~dropout trainer.lr=0.1",
        "--tokenizer gpt2 --max-tokens 512 --max_tokens=512 --key-dim 64 --author me",
        "https://huggingface.co/data git@github.com:me/data",
        "--token",
        "-- --",
    ],
)
def test_words_stay_as_they_are(line: str) -> None:
    assert told(line) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--hf-token hf_abc --lr 3", "--hf-token *** --lr 3"),
        ("--HF_TOKEN=hf_abc", "--HF_TOKEN=***"),
        ("hub.api_key=abc +wandb.apikey=def", "hub.api_key=*** +wandb.apikey=***"),
        ("--password 1234 --client-secret=7", "--password *** --client-secret=***"),
        ("--key -x-y-z data", "--key *** data"),
        ("--token --lr 3", "--token --lr 3"),
        ("--token a=b c=d", "--token *** c=d"),
        ("--key 12345678", "--key ***"),
        ("--store postgresql://me:pa55@host/runs", "--store postgresql://me:***@host/runs"),
        ("--store=postgresql://me:pa55@host/runs", "--store=postgresql://me:***@host/runs"),
    ],
)
def test_secrets_are_hidden_in_sight(line: str, expected: str) -> None:
    assert told(line) == expected


def test_a_call_without_end_is_cut_and_says_so() -> None:
    words = script_arguments(["train.py", "x" * 300, *["y"] * 299])
    assert (len(words), words[0], words[-1]) == (201, "x" * 200 + "...", "... and 100 more")


@pytest.mark.parametrize("argv", [[], ["/site-packages/ipykernel_launcher.py", "-f", "/run/kernel-77.json"]])
def test_a_notebook_has_no_arguments(argv: list[str]) -> None:
    assert script_arguments(argv) == ()
