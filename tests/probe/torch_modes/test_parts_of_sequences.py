"""Language models whose loop calls the parts itself, or `forward`: no part sees what is to be predicted."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
def layer(**options):
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layer, self.head = nn.Embedding(11, 16), layer(), nn.Linear(16, 11)
    def forward(self, x):
        return self.head(self.layer(self.embed(x), src_mask=mask))
mask = {mask}
model = Model()
embed, layer, head = model.embed, model.layer, model.head
code = {code}
optimizer = torch.optim.SGD([*model.parameters(), *code.parameters()], 1e-2)
if {is_apart}:
    del model
for step in range(30):
    text = torch.randint(0, 11, (8, 13))
    given = text[:, :-1]
    loss = functional.cross_entropy({call}.reshape(-1, 11), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [embed, layer, head]
"""
MASK = "nn.Transformer.generate_square_subsequent_mask(12)"
APART = "head(layer(embed(given), src_mask=mask))"
#: A posterior may read the whole text: what it gives to the decoder has no positions.
CODED = "head(layer(embed(given), src_mask=mask) + code(embed(given))[0].mean(1, keepdim=True))"
#: More parts than copies are made of; the embedding alone cannot say that no part sees later tokens.
LONG = "head(code[2](code[1](layer(embed(given) + code[0](torch.arange(12)), src_mask=mask), src_mask=mask)))"
PARTS = "nn.ModuleList([nn.Embedding(12, 16), type(layer)(16, 2, 32, batch_first=True), nn.LayerNorm(16)])"
CHECK = "no_position_sees_later_ones"


def _told(run_alike, **options):
    defaults = {"mask": MASK, "code": "nn.Identity()", "is_apart": True, "call": APART}
    store, found, _ = run_alike(TRAINING.format(**{**defaults, **options}))
    events = [one for one in store.events(found.id, kind="check") if one.data["check"] == CHECK]
    findings = [one for one in store.findings(found.id)]
    broken = {one.site for one in events if one.data["outcome"] == "broken"}
    leaks = {one.site for one in findings if one.cause == "data_leak"}  # several parts may be told as one
    assert leaks <= broken
    assert bool(leaks) == bool(broken)
    return broken, {one.site for one in events}, [one for one in findings if one.cause == "monitor_fault"]


@pytest.mark.parametrize(("mask", "broken"), [(MASK, set()), ("None", {"layer"})])
def test_a_layer_that_the_loop_calls(run_alike, mask, broken):
    found, asked, faults = _told(run_alike, mask=mask)
    assert found == broken
    assert "layer" in asked
    assert not faults


@pytest.mark.parametrize(("mask", "is_broken"), [(MASK, False), ("None", True)])
def test_a_model_of_many_parts(run_alike, mask, is_broken):
    found, asked, _ = _told(run_alike, mask=mask, code=PARTS, call=LONG)
    assert bool(found) == is_broken
    assert asked
    assert "embed" not in asked


def test_a_part_that_reads_the_whole_text_beside_the_layers(run_alike):
    found, _, _ = _told(run_alike, code="nn.GRU(16, 16, batch_first=True)", call=CODED)
    assert not found


@pytest.mark.parametrize(("mask", "broken"), [(MASK, set()), ("None", {"layer"})])
def test_forward_that_is_called_directly_is_told(run_alike, mask, broken):
    found, _, faults = _told(run_alike, mask=mask, is_apart=False, call="model.forward(given)")
    assert found == broken
    assert [one.severity for one in faults] == ["info"]
    assert "calls forward of Model itself" in faults[0].explanation


def test_a_model_that_is_called_is_told_nothing_of_it(run_alike):
    found, _, faults = _told(run_alike, is_apart=False, call="model(given)")
    assert not found
    assert not faults
