"""What belongs together and is taken apart is told from the text of a program; what only looks so is not."""

import pytest
from mindscope.probe.checks.program_text.contradictions import contradictions

SOFT = (
    "def soft(src, dst):\n    for p, t in zip(src.parameters(), dst.parameters()):\n"
    "        t.mul_(1 - tau).add_(tau * p)\n"
)
TABLE = (
    "class Table:\n    def fit(self, x):\n        self.v = {c: i for i, c in enumerate(dict.fromkeys(x))}\n"
    "    def __call__(self, x):\n        "
)
PAIRS = {
    "a slow copy": (f"{SOFT}soft(self.q_target, self.q)", f"{SOFT}soft(self.q, self.q_target)"),
    "a numbering": (
        f"{TABLE}self.fit(x)\n        return [self.v[c] for c in x]",
        f"{TABLE}if self.v is None:\n            self.fit(x)\n        return [self.v[c] for c in x]",
    ),
    "an action": (
        "logp = dist.log_prob(dist.sample())\nloss = -(logp * adv).mean()",
        "a = dist.sample()\nlogp = dist.log_prob(a)\nloss = -(logp * adv).mean()",
    ),
    "lists of samples and labels": (
        "def fill(self):\n    labels_ps, labels_ng = [1] * n, [0] * m\n    labels_ps = [1 for _ in ps]\n"
        "    self.x_all = self.x_ng + self.x_ps\n    self.labels_all = labels_ps + labels_ng",
        "def fill(self):\n    labels_ps = [1 for _ in ps]\n"
        "    self.x_all = self.x_ps + self.x_ng\n    self.labels_all = labels_ps + labels_ng",
    ),
    "tensors of samples and labels": (
        "def join(a):\n    x = torch.cat((real, fake))\n    y = torch.cat([zeros_fake, ones_real])",
        "def join(a):\n    x = torch.cat((real, fake))\n    y = torch.cat([ones_real, zeros_fake])\n"
        "    loss = loss_fake + loss_real\n    target = target_real + target_fake",
    ),
    "halves of pairs": (
        "def collate(batch):\n    src = sorted((s for s, _ in batch), key=len)\n    tgt = [t for _, t in batch]\n"
        "    return src, tgt",
        "def collate(batch):\n    batch = sorted(batch, key=lambda p: len(p[0]))\n    src = [s for s, _ in batch]\n"
        "    tgt = [t for _, t in batch]\n    return src, tgt",
    ),
    "rows that are packed": (
        "def encode(e, n):\n    n, order = n.sort(descending=True)\n"
        "    p = pack_padded_sequence(e[order], n, batch_first=True)\n    return rnn(p)",
        "def encode(e, n):\n    n, order = n.sort(descending=True)\n"
        "    p = pack_padded_sequence(e[order], n, batch_first=True)\n    return rnn(p)[order.argsort()]",
    ),
    "places in a picture": (
        "def flip(imgs, boxes):\n    on = torch.rand(len(imgs)) < 0.5\n"
        "    imgs = torch.where(on, imgs.flip(-1), imgs)\n    return imgs, boxes",
        "def flip(imgs, boxes):\n    on = torch.rand(len(imgs)) < 0.5\n    boxes[on, 0] = 1 - boxes[on, 0]\n"
        "    imgs = torch.where(on, imgs.flip(-1), imgs)\n    return imgs, boxes",
    ),
    "a mask": (
        "def augment(image, mask):\n    image = hflip(image)\n    return image, mask",
        "def augment(image, mask):\n    image, mask = hflip(image), hflip(mask)\n    return image, mask",
    ),
    "a seed": (
        "for step in r:\n    x, y = get(data, torch.Generator().manual_seed(seed))\n    f(x, y).backward()",
        "g = torch.Generator().manual_seed(seed)\nfor step in r:\n    x, y = get(data, g)\n    f(x, y).backward()",
    ),
    "a seed of NumPy": (
        "while True:\n    x = draw(np.random.default_rng(0))\n    f(x).backward()",
        "for step in r:\n    x = draw(np.random.default_rng(step))\n    f(x).backward()",
    ),
    "the end of a sequence": (
        "c = nn.CrossEntropyLoss(ignore_index=tok.eos_id)",
        "c = nn.CrossEntropyLoss(ignore_index=tok.pad_id)",
    ),
    "edges": (
        "edges = torch.cat([edges, edges.flip(1)], dim=1)",
        "edges = torch.cat([edges, edges.flip(0)], dim=1)",
    ),
    "the scale of a window": (
        "mean, std = stats(torch.cat([x, y], 1))\npred = net((x - mean) / std)",
        "mean, std = stats(x)\npred = net((x - mean) / std)\nboth = torch.cat([x, y], 1)",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_taken_apart_is_told_and_what_is_kept_is_not(name):
    wrong, right = PAIRS[name]
    (found,) = contradictions({"a.py": wrong})
    assert found.line >= 1
    assert not contradictions({"a.py": right})


@pytest.mark.parametrize(
    "text",
    [
        # an evaluation on the same samples each time
        "for step in r:\n    f(x).backward()\n    v = evaluate(net, torch.Generator().manual_seed(0))",
        "for step in r:\n    f(x).backward()\n    if step % 9 == 0:\n        v = get(data, Generator().manual_seed(0))",
        # lengths for a table, a mask that a helper mirrors, words that are sorted alone
        "def collate(batch):\n    n = sorted(len(s) for s, _ in batch)\n    return [t for _, t in batch]",
        "def augment(image, mask):\n    image = hflip(image)\n    return image, turned(mask)",
        "entropy = -dist.log_prob(dist.sample()).mean()\nloss = -(logp * adv).mean() - c * entropy",
        "def show(image, boxes):\n    return hflip(image)",
        "words = sorted(w for w, _ in counts)\nnumbers = [n for n in counts]",
        "sequence = torch.cat([x, x.flip(1)], dim=1)",
        # labels in the same order
        "def encode(e, n, y):\n    n, order = n.sort()\n"
        "    p = pack_padded_sequence(e[order], n)\n    return rnn(p), y[order]",
    ],
)
def test_what_only_looks_so_is_not_told(text):
    assert not contradictions({"a.py": text})
