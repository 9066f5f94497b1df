"""Arguments that stand in each other's place are told; both directions of a distance are not."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

_BPR = "def bpr(pos_score, neg_score):\n    return -F.logsigmoid(pos_score - neg_score).mean()\n"
_KL = "def kl(mu, logvar):\n    return -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum()\n"

EXCHANGED = {
    "by name": (f"{_BPR}loss = bpr(neg, pos)", "sign"),
    "by what they were given": (f"{_BPR}p, n = m(pos), m(neg)\nloss = bpr(n, p)", "sign"),
    "of items that were clicked": (
        "def hinge(clicked, negatives):\n    return negatives - clicked\nloss = hinge(neg_items, pos_items)",
        "sign",
    ),
    "of a critic": ("def gap(real, fake):\n    return fake.mean() - real.mean()\nloss = gap(d_fake, d_real)", "sign"),
    "of a method": (
        "class A:\n    def margin(self, chosen, rejected):\n        return chosen - rejected\n"
        "    def loss(self, b):\n        return self.margin(b.rejected, b.chosen)\n",
        "sign",
    ),
    "of a deviation": (f"{_KL}loss = kl(logvar, mu)", "formula"),
    "of a loss": ("def focal(pred, target):\n    return pred\nloss = focal(labels, logits)", "formula"),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_exchanged_arguments_are_told(name):
    text, sort = EXCHANGED[name]
    (found,) = contradictions({"train.py": text})
    assert found.sort == sort
    assert "in each other's place" in found.words


RIGHT = {
    "in order": f"{_BPR}loss = bpr(pos, neg)",
    "in order, by what the names were given": f"{_BPR}p, n = m(u, pos), m(u, neg)\nloss = bpr(p, n)",
    "by keyword": f"{_BPR}loss = bpr(neg_score=neg, pos_score=pos)",
    "both directions": f"{_BPR}loss = bpr(pos, neg) - bpr(neg, pos)",
    "another word for the same": f"{_KL}loss = kl(mean, log_var)",
    "names that say nothing": f"{_BPR}loss = bpr(a, b)",
    "a name that is given twice": f"{_BPR}n = m(pos)\nn = m(neg)\nloss = bpr(n, q)",
    "a function of a library": "loss = bpr(neg, pos)",
    "a function that turns them round": "def swap(pos, neg):\n    return neg, pos\npos, neg = swap(neg, pos)",
    "one of both only": f"{_BPR}loss = bpr(neg, margin)",
}


@pytest.mark.parametrize("name", RIGHT)
def test_arguments_in_their_places_are_not(name):
    assert contradictions({"train.py": RIGHT[name]}) == []
