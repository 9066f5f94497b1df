"""A key that stands twice in a file is told with its places, and hides no other mistake."""

import pytest
from mindscope.probe import ConfigError, Schedule, load_config
from mindscope.probe.configuration.config_loading import examine


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "every: 1\nmodules: ['*']\nevery: 3\n", ("key 'every' stands twice, in lines 1 and 3; keep one",)),
        (
            "a.yaml",
            "subjects:\n  loss: 1\n  weight: 3\n  weight: 4\n  weight: 5\n",
            ("key 'subjects.weight' stands 3 times, in lines 3, 4 and 5; keep one of them",),
        ),
        (
            "a.yaml",
            "on_finding:\n- do: stop\n  do: pause\nevery: 1\nevery: x\n",
            (
                "key 'every' stands twice",
                "key 'on_finding[0].do' stands twice, in lines 2 and 3",
                "every must be a whole",
            ),
        ),
        ("a.json", '{"every": 1,\n\t"every": 2}', ("key 'every' stands twice, in lines 1 and 2; keep one of them",)),
        (
            "a.yaml",
            "subjects: {loss: 1, loss: 2, loss: 3}\n",
            ("key 'subjects.loss' stands 3 times, in line 1, at columns 12, 21 and 30; keep one of them",),
        ),
        ("a.yaml", "{every: 1, every: 2,\nevery: 3}", ("key 'every' stands 3 times, in lines 1 and 2; keep",)),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_places(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / name)
    found = [told.startswith(word) for told, word in zip(caught.value.mistakes, words, strict=True)]
    assert found == [True] * len(words)


def test_a_key_that_is_merged_in_may_stand_again(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "subjects:\n  weight: &often {every: 5, first: 3}\n  gradient: {<<: *often, every: 7}\n  update: *often\n"
    )
    config = load_config(tmp_path / "a.yaml")
    assert config.schedule("gradient") == Schedule(every=7, first=3)
    assert config.schedule("update") == Schedule(every=5, first=3)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "every: x\nevery: 3\n", ["every must be a whole number, got 'x'"]),
        ("a.yaml", "every: 3\nevery: x\nevery: -1\n", ["every must be 0 or more, got -1", "every must be a whole"]),
        ("a.yaml", "subjects: {weight: {evry: 3}}\nsubjects: {loss: 1}\n", ["unknown key 'subjects.weight.evry'"]),
        (
            "a.yaml",
            "subjects: {weight: {evry: 3, evry: 4}, gradient: {frist: 3}, weight: 1}\nsubjects: {los: 1}\n",
            ["no subject 'los'", "unknown key 'subjects.gradient.frist'", "unknown key 'subjects.weight.evry'"],
        ),
        ("a.yaml", "watchpoints: [{when: nan @, when: nan @ *}]\n", ["watchpoints[0]: condition 'nan @' is not"]),
        ("a.yaml", "subjects: {loss: {start: 5, stop: 2}}\nsubjects: {weight: 1}\n", ["subjects.loss: stop 2 must"]),
        ("a.json", '{"dump": {"limit_gb": -1e2},\n"dump": {"limit_gb": 1e2}}', ["dump.limit_gb must be more than 0"]),
        ("a.json", '{"dump": {"limit_gb": 1e2},\n"dump": {"limit_gb": -1e2}}', ["dump.limit_gb must be more than 0"]),
        (
            "a.yaml",
            "a: &a {evry: 2, evry: 3}\nsubjects: {loss: *a}\n",
            ["unknown key 'a'", "unknown key 'subjects.loss.e"],
        ),
        ("a.yaml", "every: 1\nevery: 2\non_finding: &a [*a]\n", ["on_finding[0] must be"]),
    ],
)
def test_what_the_last_of_equal_keys_would_hide_is_told_too(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    _, mistakes = examine(tmp_path / name)
    told = sorted(one for one in mistakes if not one.startswith("key "))
    assert 0 < len(told) < len(mistakes)
    assert [one.startswith(word) for one, word in zip(told, sorted(words), strict=True)] == [True] * len(words)


def test_nobody_knows_yet_what_comes_of_a_key_that_stands_twice(tmp_path):
    (tmp_path / "a.yaml").write_text("every: 10\nevery: 0\n")
    _, told = examine(tmp_path / "a.yaml")
    assert len(told) == 1
