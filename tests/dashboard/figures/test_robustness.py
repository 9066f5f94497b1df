"""Accuracy against epsilon."""

from mindscope.dashboard.figures.robustness_figure import attack_lines, robustness_figure
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import Outcome

from ..recorded import outcomes


def test_there_is_one_line_per_attack_by_growing_budget():
    lines = attack_lines(tuple(reversed(outcomes())))
    assert [line.name for line in lines] == ["fgsm (linf)", "pgd (linf)"]
    assert lines[0].epsilons == (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
    assert lines[1].accuracies[-1] == 0.0


def test_a_budget_without_adversarial_examples_says_so():
    assert "no adversarial example" in attack_lines(outcomes())[0].texts[0]


def test_lines_differ_by_more_than_colour():
    figure = robustness_figure(attack_lines(outcomes()), LIGHT)
    assert len({line.marker.symbol for line in figure.data}) == 2
    assert len({line.line.dash for line in figure.data}) == 2


def test_a_certificate_is_certain_only_up_to_its_budget():
    certified_outcome = [Outcome("crown", "linf", epsilon, left, 8) for epsilon, left in ((0.1, 0.6), (0.2, 0.1))]
    (line,) = attack_lines(certified_outcome, "certificate")
    assert (line.epsilons, line.accuracies) == ((0.0, 0.1, 0.2), (0.6, 0.6, 0.1))
    assert robustness_figure([line], LIGHT).data[0].line.shape == "vh"  # down at the smaller budget, then across
