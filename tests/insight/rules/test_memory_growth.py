"""Memory that grows is a warning, and a question where inputs of ever new sizes fill allocators and caches."""

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine

MEGA = 2.0**20


def found(pace, sizes, *, name="host_bytes", looks=20):
    """The newest finding of a training whose memory grows by so many megabytes a look, with inputs of these sizes."""
    memory = tuple(300 * MEGA + pace * MEGA * (step // 10) if step % 10 == 0 else None for step in range(10 * looks))
    series = {f"scalar/memory/{name}": memory, " batch/size": tuple(map(sizes, range(10 * looks)))}
    engine = Engine({"memory-growth": RULES["memory-growth"]})
    for record in Recording(series).records():
        engine.observe(record)
    return engine.findings[-1]


def alike(_step):
    return 640.0


def varying(step):
    return 640.0 + step


def test_memory_that_grows_with_inputs_of_one_size_is_a_warning():
    finding = found(20, alike)
    assert finding.severity == "warning"
    assert "sizes" not in finding.explanation


def test_with_inputs_of_ever_new_sizes_it_is_a_question_that_names_the_caches():
    finding = found(20, varying)
    assert finding.severity == "info"
    assert "its input had 7 sizes in 7 looks; is something gathered on purpose?" in finding.explanation
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" in finding.advice


@pytest.mark.parametrize(
    ("pace", "name"), [(120, "host_bytes"), (20, "device_bytes")], ids=["more than caches take", "allocated tensors"]
)
def test_what_caches_do_not_explain_stays_a_warning(pace, name):
    assert found(pace, varying, name=name).severity == "warning"
