"""Models of Hugging Face's transformers are attacked at their embeddings, from Python and from the command line."""

import json

import numpy as np
import pytest
from mindscope.armour import (
    FGSM,
    PGD,
    Detection,
    HopSkipJump,
    InvalidInput,
    InvalidModel,
    Square,
    Tokens,
    evaluate,
    make_attack,
    wrap,
    wrap_tokens,
)
from mindscope.armour.array_api import to_numpy

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

WORDS, LENGTH, PADDING = 40, 10, 0
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def texts(samples, seed=0):
    """Random words of which those below 20 speak for class 0, the others for class 1, padded on the right."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(6, LENGTH + 1, samples)
    classes = generator.integers(0, 2, samples)
    mostly = generator.random((samples, LENGTH)) < 0.8
    side = np.where(mostly, classes[:, None], 1 - classes[:, None])
    ids = generator.integers(2, 20, (samples, LENGTH)) + 20 * side
    mask = np.arange(LENGTH) < lengths[:, None]
    counted = np.where(mask, np.where(ids >= 20, 1, -1), 0).sum(axis=1)
    return {
        "input_ids": torch.tensor(np.where(mask, ids, PADDING)),
        "attention_mask": torch.tensor(mask.astype(np.int64)),
    }, (counted > 0).astype(np.int64)


def bert(head, **options):
    config = transformers.BertConfig(
        vocab_size=WORDS, max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **SMALL
    )
    for name, value in options.items():
        setattr(config, name, value)
    return head(config)


def gpt2(head):
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=1, n_head=2, pad_token_id=PADDING,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, num_labels=2,
    )  # fmt: skip
    return head(config)


def distilbert(head):
    return head(
        transformers.DistilBertConfig(
            vocab_size=WORDS, max_position_embeddings=16, dim=16, n_layers=1, n_heads=2, hidden_dim=32, dropout=0.0,
            attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=2,
        )
    )  # fmt: skip


def trained(make, head, labels, steps=60):
    """A tiny model that was trained a little, in evaluation mode."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokens, y = texts(200)
    model = make(head).train()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**tokens, labels=labels(tokens, y)).loss.backward()
        optimizer.step()
    return model.eval()


def of_text(_, y):
    return torch.tensor(y)


def of_tokens(tokens, _):
    return torch.where(tokens["attention_mask"] > 0, (tokens["input_ids"] >= 20).long(), -100)


def next_words(tokens, _):
    return torch.where(tokens["attention_mask"] > 0, tokens["input_ids"], -100)


CLASSIFIERS = {
    "bert": (bert, transformers.BertForSequenceClassification),
    "distilbert": (distilbert, transformers.DistilBertForSequenceClassification),
    "gpt2": (gpt2, transformers.GPT2ForSequenceClassification),
}


@pytest.fixture(scope="module")
def classifier():
    return trained(*CLASSIFIERS["bert"], of_text)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_tokenizers_mapping_is_evaluated_as_the_model_answers_it(name):
    model = trained(*CLASSIFIERS[name], of_text)
    tokens, y = texts(60, seed=1)
    with torch.no_grad():
        own = model(**tokens).logits
    wrapped = wrap_tokens(model)
    packed = wrapped.embed(tokens)
    np.testing.assert_allclose(to_numpy(wrapped.logits(wrapped.native(packed))), own.numpy(), atol=1e-6)
    evaluation = evaluate(model, transformers.BatchEncoding(tokens), y, [0.05, 1.0], attacks=["pgd"])
    assert evaluation.clean_accuracy == (own.argmax(dim=1).numpy() == y).mean() > 0.75
    left = evaluation.accuracy()
    assert left[1.0] < left[0.05] <= left[0.0]


def test_only_embeddings_of_tokens_in_the_mask_change(classifier):
    tokens, y = texts(24, seed=2)
    model = wrap_tokens(classifier)
    x = model.embed(tokens)
    mask = tokens["attention_mask"].numpy().astype(bool)
    for attack in (PGD(random_start=True), make_attack("fmn", "l2"), Square(queries=60), make_attack("deepfool", "l2")):
        moved = to_numpy(attack(model, tokens, y, epsilons=[0.4]).adversarials)[0] != x
        assert moved[..., :16][mask].any()
        assert not moved[~mask].any()
        assert not moved[..., 16:].any()
    first = np.zeros((24, LENGTH), bool)
    first[:, 0] = True
    chosen = model.embed(tokens, attacked=first)
    moved = to_numpy(PGD()(model, chosen, y, epsilons=[2.0]).adversarials)[0] != chosen
    assert not moved[:, 1:].any()
    assert moved[:, 0].any()


def test_the_first_step_follows_the_gradient_of_the_embeddings(classifier):
    tokens, _ = texts(12, seed=3)
    y = classifier(**tokens).logits.argmax(dim=1).numpy()
    model = wrap_tokens(classifier, bounds=(-9.0, 9.0))
    table = classifier.get_input_embeddings().weight
    embeddings = table[tokens["input_ids"]].detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        classifier(inputs_embeds=embeddings, attention_mask=tokens["attention_mask"]).logits, torch.tensor(y)
    )
    (gradient,) = torch.autograd.grad(loss, embeddings)
    result = FGSM()(model, tokens, y, epsilons=[0.03])
    step = to_numpy(result.adversarials)[0][..., :16] - embeddings.detach().numpy()
    np.testing.assert_allclose(step, 0.03 * np.sign(gradient.numpy()), atol=1e-6)


def test_small_steps_stay_nearest_to_the_words_they_came_from(classifier):
    tokens, y = texts(10, seed=4)
    model = wrap_tokens(classifier)
    found = PGD()(model, tokens, y, epsilons=[0.01]).adversarials[0]
    np.testing.assert_array_equal(model.nearest_ids(found), tokens["input_ids"].numpy())
    other = model.embed({"input_ids": np.roll(tokens["input_ids"].numpy(), 1, axis=0)})
    np.testing.assert_array_equal(model.nearest_ids(other), np.roll(tokens["input_ids"].numpy(), 1, axis=0))


def test_a_class_for_each_token_and_the_next_word_are_tasks():
    tokens, y = texts(30, seed=5)
    tagger = trained(bert, transformers.BertForTokenClassification, of_tokens)
    tags = of_tokens(tokens, y).numpy()
    model = wrap_tokens(tagger, task=Tokens(kept=0.8))
    evaluation = evaluate(model, tokens, tags, [0.05, 1.5], attacks=["pgd"])
    assert evaluation.accuracy()[1.5] < 0.5 < evaluation.clean_accuracy
    result = PGD()(model, tokens, tags, epsilons=[1.5])
    predicted = to_numpy(model.logits(result.adversarials[0])).argmax(axis=2)
    right = ((predicted == tags) & (tags >= 0)).sum(axis=1) / (tags >= 0).sum(axis=1)
    np.testing.assert_array_equal(right < 0.8, result.success[0])

    writer = trained(gpt2, transformers.GPT2LMHeadModel, next_words, steps=20)
    words = next_words(tokens, y).numpy()
    language = wrap_tokens(writer, task=Tokens(kept=0.02, following=True), output="logits")
    found = evaluate(language, tokens, words, [0.05], attacks=["pgd"])
    scores = {o.epsilon: o.details["scores"] for o in found.outcomes if o.attack == "pgd"}
    with torch.no_grad():
        loss = float(writer(**tokens, labels=torch.tensor(words)).loss)
    np.testing.assert_allclose(scores[0.0]["perplexity"], np.exp(loss), rtol=1e-4)
    assert scores[0.05]["right"] <= scores[0.0]["right"]


def test_labels_alone_and_half_precision_are_attacked_too(classifier):
    tokens, y = texts(16, seed=6)
    halved = wrap_tokens(trained(*CLASSIFIERS["bert"], of_text).to(torch.bfloat16))
    result = HopSkipJump("l2", steps=2, queries=20)(halved, tokens, y, epsilons=[3.0])
    assert result.success.mean() > 0.3
    assert str(result.adversarials.dtype) == "torch.float32"


def test_an_image_classifier_needs_nothing():
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        image_size=8, patch_size=4, num_channels=1, num_labels=3, initializer_range=0.5, **SMALL
    )
    model = wrap(transformers.ViTForImageClassification(config).eval())
    x = np.random.default_rng(0).uniform(0, 1, (12, 1, 8, 8)).astype(np.float32)
    y = to_numpy(model.logits(model.native(x))).argmax(axis=1)
    assert PGD()(model, x, y, epsilons=[0.3]).success.any()


def test_detectors_answer_with_queries():
    torch.manual_seed(0)
    config = transformers.YolosConfig(
        image_size=[16, 16], patch_size=8, num_channels=1, num_labels=2, num_detection_tokens=4,
        initializer_range=0.5, **SMALL,
    )  # fmt: skip
    detector = transformers.YolosForObjectDetection(config).eval()
    x = np.random.default_rng(0).uniform(0, 1, (5, 1, 16, 16)).astype(np.float32)
    model = wrap(detector, task=Detection(score=0.3))
    found = to_numpy(model.logits(model.native(x)))
    own = detector(torch.tensor(x))
    np.testing.assert_allclose(found[:, 0, 4], own.logits.softmax(-1)[..., :-1].amax((1, 2)).detach(), rtol=1e-5)
    best = [{"boxes": image[:1, :4], "labels": image[:1, 5].astype(int)} for image in found]
    result = PGD()(model, x, best, epsilons=[0.0, 0.5])
    np.testing.assert_array_equal(result.success[0], found[:, 0, 4] < 0.3)
    assert result.success[1].sum() > result.success[0].sum()


TOKENS, Y = texts(8)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({**TOKENS, "labels": Y}, "tokens has 'labels', which the model is not given; it takes input_ids, attention_m"),
        ({"attention_mask": TOKENS["attention_mask"]}, "tokens expects input_ids, got 'attention_mask'"),
        ({"input_ids": TOKENS["input_ids"] + 30}, "input_ids expects ids 0 to 39, got 30 to 69"),
        ({"input_ids": [[1, 2], [3]]}, r"padded to one length, got 2 rows of different lengths"),
        ({"input_ids": [1, 2]}, r"input_ids expects whole numbers \(n, tokens\), padded to one length, got int64 of s"),
        ({**TOKENS, "attention_mask": [[1, 1]]}, "attention_mask expects whole numbers 0 to 65534 of shape"),
        (np.zeros((8, 3, 5), np.float32), r"expects these, or what its embed\(tokens\) returns, \(n, tokens, 20\)"),
    ],
    ids=["unknown", "no ids", "vocabulary", "ragged", "one text", "mask", "packed otherwise"],
)
def test_tokens_that_do_not_fit_are_named_before_anything_runs(classifier, tokens, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate(wrap_tokens(classifier), tokens, Y, [0.1])


def test_a_wrong_layer_and_a_wrong_model_are_named(classifier):
    with pytest.raises(InvalidModel, match="does not look up its token ids in the embedding layer Embedding"):
        evaluate(
            wrap_tokens(classifier, embedding="bert.embeddings.position_embeddings"),
            {"input_ids": TOKENS["input_ids"] % 16},
            Y,
            [0.1],
        )
    with pytest.raises(InvalidModel, match="wrap_tokens expects a torch Module that takes token ids, got"):
        wrap_tokens(len)
    tagger = wrap_tokens(bert(transformers.BertForTokenClassification).eval(), task=Tokens())
    with pytest.raises(InvalidInput, match=r"y expects a class for each of 10 tokens, got shape \(8,\)"):
        evaluate(tagger, TOKENS, Y, [0.1])


TARGET = """
import torch, transformers
config = transformers.BertConfig(vocab_size=40, max_position_embeddings=16, hidden_size=16, num_hidden_layers=1,
                                 num_attention_heads=2, intermediate_size=32)
torch.manual_seed(0)
model = transformers.BertForSequenceClassification(config).eval()
tagger = transformers.BertForTokenClassification(config).eval()
"""


def test_the_command_line_takes_a_file_with_input_ids(tmp_path, capsys):
    from mindscope.cli import main

    (tmp_path / "text.py").write_text(TARGET)
    arrays = {name: values.numpy() for name, values in TOKENS.items()}
    np.savez(tmp_path / "texts.npz", **arrays, y=Y)
    np.savez(tmp_path / "tags.npz", **arrays, y=np.where(arrays["attention_mask"], arrays["input_ids"] >= 20, -100))
    for name, data in (("model", "texts"), ("tagger", "tags")):
        code = main(
            ["armour", "evaluate", f"{tmp_path}/text.py:{name}", "--data", f"{tmp_path}/{data}.npz", "--epsilons",
             "0.02,0.2", "--attacks", "pgd", "--limit", "6", "--store", str(tmp_path / "store"), "--json"]
        )  # fmt: skip
        document = json.loads(capsys.readouterr().out)
        assert code in (0, 1)
        assert document["samples"] == 6
        assert document["worst_case"][-1]["accuracy"] <= document["clean_accuracy"]
