"""Text models of torch that come from no library are attacked at their embeddings."""

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, InvalidModel, evaluate, wrap_tokens
from mindscope.armour.array_api import to_numpy

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch.set_num_threads(1)
WORDS, LENGTH = 40, 10
IDS = np.random.default_rng(0).integers(0, WORDS, (9, LENGTH))
PLACES = np.tile(np.arange(LENGTH), (9, 1))


class Own(torch.nn.Module):
    """The mean of words at places, classified."""

    def __init__(self, scale=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = torch.nn.Embedding(WORDS, 8), torch.nn.Embedding(LENGTH, 8)
        self.answer = torch.nn.Linear(8, 2)
        self.scale = scale

    def forward(self, ids, place=None, attention_mask=None):
        place = torch.arange(ids.shape[1]).expand_as(ids) if place is None else place
        weight = torch.ones(ids.shape) if attention_mask is None else attention_mask.float()
        seen = (self.words(ids) + self.places(place)) * weight[..., None]
        return self.answer(self.scale * seen.sum(dim=1) / weight.sum(dim=1, keepdim=True))


def test_a_module_names_its_embedding_and_its_other_inputs():
    own = Own().eval()
    with pytest.raises(InvalidModel, match=r"Own has 2 embeddings \(words, places\), and wrap_tokens expects one"):
        wrap_tokens(own)
    with pytest.raises(InvalidModel, match="has no layer 'word'; it has words, places, answer"):
        wrap_tokens(own, embedding="word")
    with pytest.raises(InvalidInput, match="sides expects inputs of Own, ids, place, attention_mask; got 'mask'"):
        wrap_tokens(own, embedding="words", sides=("mask",))
    model = wrap_tokens(own, embedding="words", sides=("place", "attention_mask"))
    ids, place = torch.tensor(IDS), torch.tensor(PLACES[:, ::-1].copy())
    expected = own(ids, place).detach().numpy()
    np.testing.assert_allclose(model.logits(model.native(model.embed({"input_ids": ids, "place": place}))), expected)
    result = PGD()(model, {"input_ids": ids, "place": place}, expected.argmax(axis=1), epsilons=[0.0, 1.0])
    assert result.success.mean(axis=1).tolist() == [0.0, 1.0]


def test_the_least_perturbation_of_a_linear_model_is_what_theory_says():
    own = Own().eval()
    model = wrap_tokens(own, embedding="words", bounds=(-9.0, 9.0))
    mask = (np.arange(LENGTH) < np.arange(2, 11)[:, None]).astype(np.int64)
    tokens = {"input_ids": IDS, "attention_mask": mask}
    logits = to_numpy(model.logits(model.native(model.embed(tokens))))
    y, gap = logits.argmax(axis=1), np.abs(logits[:, 0] - logits[:, 1])
    weights = (own.answer.weight[0] - own.answer.weight[1]).abs().sum().item()
    needed = gap / weights  # every seen word moves by it in Linf: their mean moves as much, whatever the length
    found = PGD()(model, tokens, y, epsilons=[float(np.median(needed))])
    np.testing.assert_array_equal(found.success[0], needed < np.median(needed) * (1 - 1e-6))


def test_ids_alone_and_large_vocabularies_are_told_apart():
    model = wrap_tokens(Own().eval(), embedding="words")
    assert evaluate(model, IDS, np.zeros(9, int), [0.0]).samples == 9
    with pytest.raises(InvalidInput, match=r"the bounds \(1000.0, 1000.1\) are too far from 0 to hold 40 token ids"):
        wrap_tokens(Own().eval(), embedding="words", bounds=(1000.0, 1000.1)).embed(IDS)
    with pytest.raises(InvalidInput, match=r"of token ids armour.wrap_tokens\(model\) attacks the embeddings"):
        PGD()(model.__class__.__mro__[1](model._network), IDS, np.zeros(9, int), epsilons=[0.1])
