"""What passes before a forward may be the loader's or the loop's own: the words do not take the one for the other."""

from mindscope.insight import RULES
from mindscope.insight.engine import Engine


def test_the_words_name_what_was_measured_and_how_to_tell_the_loader_from_the_loop() -> None:
    rule = RULES["dataloader-bound"]
    engine = Engine({rule.name: rule})
    for record in rule.fires_on[0].records():
        engine.observe(record)
    (found,) = engine.findings
    assert "between the optimizer's step and the next forward: in the loader, or in whatever else" in found.explanation
    assert "waits for its data" not in found.explanation
    assert found.advice.startswith("time the loader's next() alone to see which it is")
    assert found.cause == "dataloader_bound"
