"""A whole number, a number and a switch are what they say; what only looks like one is told with what was meant."""

from typing import Any, get_args

import numpy as np
import pytest
from mindscope.probe import Config, ConfigError, load_config
from mindscope.probe.configuration.config_fields import Section
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"every": "5"}, "every must be a whole number, got '5'; write 5, without quotes$"),
        ({"every": 5.0}, r"every must be a whole number, got 5\.0; write 5$"),
        ({"histograms": {"bins": 1e300}}, r"bins must be a whole number, got 1e\+300; leave it out for 64$"),
        ({"every": 5.5}, r"every must be a whole number, got 5\.5; leave it out for 1$"),
        ({"every": True}, "every must be a whole number, got true; write 1 for every step$"),
        ({"histograms": {"every": False}}, "got false; write 0 for none$"),
        ({"queue": {"capacity": True}}, "queue.capacity must be a whole number, got true; leave it out for"),
        ({"depth": "two"}, "depth must be a whole number, got 'two'; or leave it out$"),
        (
            {"subjects": {"weight": "5"}},
            "subjects.weight must be a whole number of steps, .*, got '5'; write 5, without",
        ),
        ({"subjects": {"weight": 5.0}}, r"subjects.weight must be .*, got 5\.0; write 5$"),
        ({"subjects": {"weight": None}}, "subjects.weight must be .*, got null; there are every, first"),
        (
            {"subjects": {"weight": {"windows": [["3", 7]]}}},
            r"windows\[0\]\[0\] must be a whole number, got '3'; write 3",
        ),
        ({"nan_trace": "yes"}, "nan_trace must be true or false, got 'yes'; write true, without quotes$"),
        ({"nan_trace": "Off"}, "nan_trace must be true or false, got 'Off'; write false, without quotes$"),
        ({"nan_trace": 1}, "nan_trace must be true or false, got 1; write true$"),
        ({"nan_trace": 0}, "nan_trace must be true or false, got 0; write false$"),
        ({"nan_trace": 2}, "nan_trace must be true or false, got 2; leave it out for false$"),
        ({"causality": "yes"}, "^configuration: causality must be true, false or report, got 'yes'; write true[^;]*$"),
        ({"dump": {"limit_gb": "3.5"}}, r"dump.limit_gb must be a number, got '3\.5'; write 3\.5, without quotes$"),
        ({"dump": {"limit_gb": True}}, r"dump.limit_gb must be a number, got true; leave it out for 10\.0$"),
        ({"flight_recorder": {"memory": 1e9}}, "memory must be a whole number, got 1000000000.0; write 1000000000$"),
        ({"histograms": False}, r"histograms must be keys and values, got false; write {every: 0}$"),
        ({"dump": True}, "dump must be keys and values, got true; write {} for its defaults, or some of sites"),
        ({"webhook": False}, "webhook must be keys and values, got false; leave it out$"),
        ({"on_finding": None}, r"on_finding must be a list, got null; leave it out for \[\]$"),
    ],
    ids=str,
)
def test_what_only_looks_like_it_is_refused_with_what_was_meant(fields, words):
    with pytest.raises(ConfigError, match=words):
        load_config(fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("every",), np.int64(3)),
        (("every",), np.array(3)),
        (("subjects", "weight"), np.uint8(3)),
        (("subjects", "weight", "every"), np.int32(3)),
        (("subjects", "weight", "windows"), [(np.int64(1), np.int64(3))]),
        (("nan_trace",), np.bool_(True)),
        (("dump", "limit_gb"), np.float32(3.0)),
        (("dump", "limit_gb"), 3),
    ],
    ids=str,
)
def test_scalars_of_a_program_are_what_they_hold(field, value):
    fields: Any = value
    for name in reversed(field):
        fields = {name: fields}
    plain = load_config(fields).model_dump(mode="json")
    assert load_config(plain) == load_config(fields)


def test_a_number_with_an_exponent_is_one_in_a_file(tmp_path):
    (tmp_path / "a.yaml").write_text("dump: {limit_gb: 1e2, memory_gb: 25E-2}\nexclude: [1.e4x, e3]\n")
    config = load_config(tmp_path / "a.yaml")
    assert (config.dump.limit_gb, config.dump.memory_gb, config.exclude) == (100.0, 0.25, ("1.e4x", "e3"))


WRONG = {int: (True, 5.0, [5]), float: (True, [0.5]), bool: (1, "true", 1.0)}


def leaves(annotation: object) -> set[type]:
    inner = get_args(annotation)
    return {one for part in inner for one in leaves(part)} if inner else {annotation} & {int, float, bool}


@pytest.mark.parametrize("part", [Config, *Section.__subclasses__()], ids=lambda part: part.__name__)
def test_every_field_of_the_schema_is_as_strict(part):
    for name, field in part.model_fields.items():
        for kind in leaves(field.annotation):
            for value in WRONG[kind]:
                with pytest.raises(ValidationError) as caught:
                    part.model_validate({name: value})
                assert name in {error["loc"][0] for error in caught.value.errors()}, f"{name}: {value!r}"
