"""Detectors lose objects under attack, in every form in which they return them; average precision is COCO's."""

import numpy as np
import pytest
from mindscope.armour import PGD, Detection, InvalidInput, InvalidModel, Square, evaluate, wrap
from mindscope.armour.array_api import to_numpy
from mindscope.armour.model.average_precision import average_precision, matched_objects, overlaps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
SIZE, CELL = 24, 6


def scenes(samples, seed=0):
    """Images with one or two squares of 6 x 6, light (class 1) or dark (class 2), each within its own quarter."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0.45, 0.55, (samples, 1, SIZE, SIZE)).astype(np.float32)
    y = []
    for image in x:
        quarters = generator.permutation(4)[: generator.integers(1, 3)]
        corners = [
            np.array([12 * (quarter % 2), 12 * (quarter // 2)]) + generator.integers(0, 7, 2) for quarter in quarters
        ]
        labels = generator.integers(1, 3, len(corners))
        for (left, top), label in zip(corners, labels, strict=True):
            image[0, top : top + 6, left : left + 6] = 0.8 if label == 1 else 0.2
        y.append({"boxes": np.array([[*corner, *(corner + 6)] for corner in corners], float), "labels": labels})
    return x, y


class Grid(torch.nn.Module):
    """A detector of one stage: each cell of a grid answers whether an object's centre lies in it, its class and box."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(1, 12, 5, padding=2), torch.nn.ReLU(),
            torch.nn.Conv2d(12, 24, CELL, stride=CELL), torch.nn.ReLU(),
            torch.nn.Conv2d(24, 7, 3, padding=1),
        )  # fmt: skip
        across = (torch.arange(SIZE // CELL) + 0.5) * CELL
        self.register_buffer(
            "centres", torch.stack(torch.meshgrid(across, across, indexing="xy"), dim=-1).reshape(-1, 2)
        )

    def cells(self, x):
        """`(n, cells, 7)`: a logit whether there is an object, those of two classes, offset and size."""
        return self.body(2 * x - 1).flatten(2).transpose(1, 2)

    def batch(self, x):
        found = self.cells(x)
        middle, size = self.centres + found[..., 3:5] * CELL, 6 * torch.exp(found[..., 5:7])
        shares = torch.sigmoid(found[..., 0])[..., None] * torch.softmax(found[..., 1:3], dim=-1)
        scores, labels = shares.max(dim=-1)
        return torch.cat([middle - size / 2, middle + size / 2], dim=-1), scores, labels + 1

    def forward(self, x):  # as torchvision's detectors answer
        return [
            {"boxes": boxes[scores > 0.05], "scores": scores[scores > 0.05], "labels": labels[scores > 0.05]}
            for boxes, scores, labels in zip(*self.batch(x), strict=True)
        ]


@pytest.fixture(scope="module")
def detector():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = scenes(96)
    cells = np.zeros((96, 16, 6), np.float32)  # whether there is an object, its class, offset and size
    for image, objects in zip(cells, y, strict=True):
        for box, label in zip(objects["boxes"], objects["labels"], strict=True):
            middle = (box[:2] + box[2:]) / 2
            column, row = (middle // CELL).astype(int)
            image[4 * row + column] = 1, label - 1, *((middle - (np.array([column, row]) + 0.5) * CELL) / CELL), 0, 0
    wanted, model = torch.tensor(cells), Grid()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        found = model.cells(torch.tensor(x))
        there = wanted[..., 0] > 0
        loss = torch.nn.functional.binary_cross_entropy_with_logits(found[..., 0], wanted[..., 0])
        loss = loss + torch.nn.functional.cross_entropy(found[there][:, 1:3], wanted[there][:, 1].long())
        loss = loss + (found[there][:, 3:] - wanted[there][:, 2:]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


X, Y = scenes(30, seed=1)


def slow_recall(answers, y, overlap=0.5, score=0.5):
    """The share of each image's objects that are found, one object after the other."""
    shares = []
    for answer, objects in zip(answers, y, strict=True):
        used, hits = set(), set()
        for at in np.argsort(-to_numpy(answer["scores"]), kind="stable"):
            best = (overlap, None)
            for number, box in enumerate(objects["boxes"]):
                share = overlaps(to_numpy(answer["boxes"])[at][None], box[None])[0, 0]
                if number not in used and int(answer["labels"][at]) == objects["labels"][number] and share >= best[0]:
                    best = (share, number)
            if best[1] is not None:
                used.add(best[1])
                if float(answer["scores"][at]) >= score:
                    hits.add(best[1])
        shares.append(len(hits) / len(objects["boxes"]))
    return np.array(shares)


def test_objects_vanish_under_attack_and_are_counted_as_the_detector_answers(detector):
    model = wrap(detector, task=Detection(kept=0.6))
    result = PGD()(model, X, Y, epsilons=[0.05, 0.3])
    with torch.no_grad():
        lost_before = slow_recall(detector(torch.tensor(X)), Y) < 0.6
    assert lost_before.mean() < 0.2
    for candidates, success in zip(result.adversarials, result.success, strict=True):
        with torch.no_grad():
            recall = slow_recall(detector(torch.as_tensor(to_numpy(candidates))), Y)
        np.testing.assert_array_equal((recall < 0.6) & ~lost_before, success)
    assert result.success[0].mean() < 0.5 < result.success[1].mean()


def test_an_evaluation_tells_recall_and_average_precision(detector):
    evaluation = evaluate(wrap(detector, task=Detection()), X, Y, [0.3], attacks=["pgd"])
    before, after = (o.details["scores"] for o in evaluation.outcomes if o.attack == "pgd")
    assert before["average_precision_50"] > 0.9
    assert before["average_precision_50"] >= before["average_precision"]
    assert after["average_precision_50"] < before["average_precision_50"] - 0.2
    assert after["right"] < 0.7 < before["right"]


def in_one_array(y):
    found = np.full((len(y), 2, 5), -1.0)
    for image, objects in zip(found, y, strict=True):
        image[: len(objects["labels"])] = np.column_stack([objects["boxes"], objects["labels"]])
    return found


class Form(torch.nn.Module):
    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x):
        return self.change(*self.inner.batch(x))


FORMS = {
    "batches": lambda boxes, scores, labels: {"boxes": boxes, "scores": scores, "labels": labels},
    "one array": lambda boxes, scores, labels: torch.cat([boxes, scores[..., None], labels[..., None]], dim=2),
    "by name": lambda boxes, scores, labels: {"loss": 0, "found": [
        {"boxes": b, "scores": s, "labels": n} for b, s, n in zip(boxes, scores, labels, strict=True)
    ]},
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_detections_gives_the_same(detector, name):
    expected = PGD(steps=8)(wrap(detector, task=Detection()), X[:12], Y[:12], epsilons=[0.2]).success
    output = "found" if name == "by name" else None
    model = wrap(Form(detector, FORMS[name]).eval(), task=Detection(), output=output)
    np.testing.assert_array_equal(PGD(steps=8)(model, X[:12], Y[:12], epsilons=[0.2]).success, expected)
    found = PGD(steps=8)(model, X[:12], in_one_array(Y[:12]), epsilons=[0.2])
    np.testing.assert_array_equal(found.success, expected)


def test_a_detector_without_gradients_is_attacked_by_its_scores(detector):
    def remote(x):
        with torch.no_grad():
            return [{name: to_numpy(part) for name, part in image.items()} for image in detector(torch.as_tensor(x))]

    evaluation = evaluate(wrap(remote, task=Detection()), X[:10], Y[:10], [0.4], attacks=[Square(queries=200)])
    assert evaluation.answers == "logits"
    assert evaluation.accuracy()[0.4] < evaluation.clean_accuracy


def test_images_in_which_nothing_is_left_do_not_stop_a_search(detector):
    class Shy(torch.nn.Module):
        def forward(self, x):
            found = detector(x)
            return [{name: part[image["scores"] > 0.9] for name, part in image.items()} for image in found]

    result = PGD(steps=10)(wrap(Shy().eval(), task=Detection(score=0.91)), X[:6], Y[:6], epsilons=[0.5])
    assert result.success.all()


def random_case(seed):
    generator = np.random.default_rng(seed)
    objects = np.full((12, 6, 5), -1.0)
    detections = np.zeros((12, 15, 6))
    detections[..., 5] = -1
    for image in range(12):
        count, found = generator.integers(1, 7), generator.integers(0, 16)
        corners = generator.uniform(0, 20, (count, 2))
        objects[image, :count] = np.column_stack(
            [corners, corners + generator.uniform(3, 12, (count, 2)), generator.integers(0, 3, count)]
        )
        source = objects[image, generator.integers(0, count, found)]
        boxes = source[:, :4] + generator.normal(0, 0.8, (found, 4))
        labels = np.where(generator.random(found) < 0.8, source[:, 4], generator.integers(0, 3, found))
        detections[image, :found] = np.column_stack([boxes, generator.permutation(1000)[:found] / 1000, labels])
    return detections, objects


def slow_average_precision(detections, objects, level):
    """Match and add up with loops; the area is the mean over 101 recalls of the best precision from there on."""
    areas = []
    for kind in np.unique(objects[objects[..., 4] >= 0][:, 4]):
        marked = []
        for image, truth in zip(detections, objects, strict=True):
            boxes, used = truth[truth[:, 4] == kind][:, :4], set()
            for row in sorted(image[image[:, 5] == kind], key=lambda row: -row[4]):
                shares = {
                    number: share
                    for number, share in enumerate(overlaps(row[None, :4], boxes)[0] if len(boxes) else [])
                    if number not in used and share >= level
                }
                if shares:
                    used.add(max(shares, key=shares.get))
                marked.append((row[4], bool(shares)))
        marked.sort(key=lambda pair: -pair[0])
        total, curve = (objects[..., 4] == kind).sum(), []
        for length in range(1, len(marked) + 1):
            hits = sum(hit for _, hit in marked[:length])
            curve.append((hits / total, hits / length))
        recalls = np.linspace(0, 1, 101)
        areas.append(np.mean([max((p for r, p in curve if r >= at), default=0.0) for at in recalls]))
    return np.mean(areas)


@pytest.mark.parametrize("seed", range(4))
def test_average_precision_equals_a_slow_one(seed):
    detections, objects = random_case(seed)
    levels = (0.5, 0.75)
    expected = [slow_average_precision(detections, objects, level) for level in levels]
    np.testing.assert_allclose(average_precision(detections, objects, levels), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_equals_that_of_pycocotools(seed, capsys):
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    from pycocotools.cocoeval import COCOeval

    detections, objects = random_case(seed)

    def rows(array, label, score=None):
        for image, boxes in enumerate(array):
            for box in boxes[boxes[:, label] >= 0]:
                left, top, right, bottom = box[:4]
                size = [left, top, right - left, bottom - top]
                row = {"image_id": image + 1, "category_id": int(box[label]) + 1, "bbox": size}
                yield row | ({} if score is None else {"score": box[score]})

    truth = coco.COCO()
    truth.dataset = {
        "images": [{"id": number + 1} for number in range(12)],
        "categories": [{"id": kind} for kind in (1, 2, 3)],
        "annotations": [
            row | {"id": number, "iscrowd": 0, "area": row["bbox"][2] * row["bbox"][3]}
            for number, row in enumerate(rows(objects, 4), 1)
        ],
    }
    truth.createIndex()
    judge = COCOeval(truth, truth.loadRes(list(rows(detections, 5, 4))), "bbox")
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    found = average_precision(detections, objects, np.linspace(0.5, 0.95, 10))
    np.testing.assert_allclose([found.mean(), found[0], found[5]], judge.stats[:3], atol=1e-9)


def test_a_detection_finds_one_object_and_takes_its_score_from_the_best():
    objects = np.array([[[0, 0, 10, 10, 1], [0, 0, 10, 9, 1], [20, 20, 30, 30, 2]]], float)
    detections = np.array([[[0, 0, 10, 10, 0.4, 1], [0, 0, 10, 10, 0.9, 1], [20, 20, 30, 30, 0.8, 1]]])
    np.testing.assert_array_equal(matched_objects(detections, objects, 0.5), [[1, 0, -1]])


@pytest.mark.parametrize(
    ("output", "y", "error", "message"),
    [
        (None, Y[:2], InvalidInput, "y expects one row for each of 30 samples"),
        (None, [{"boxes": np.zeros((0, 4)), "labels": []}] * 30, InvalidInput, "one object or more in every image"),
        (None, [{"boxes": [[4, 4, 2, 6]], "labels": [1]}] * 30, InvalidInput, "boxes x1, y1, x2, y2 with x1 < x2"),
        (None, [{"boxes": [[4, 4, 6, 6]]}] * 30, InvalidInput, "y expects a mapping of boxes .* got dict for image 0"),
        (None, np.zeros((30, 2, 4)), InvalidInput, r"y expects \(n, objects, 5\) boxes and classes, got float64"),
        (lambda b, s, n: b, Y, InvalidModel, r"detections in one array must be \(n, k, 6\)"),
        (lambda b, s, n: (b, s), Y, InvalidModel, "must return boxes, scores and labels of each of 16 images"),
        (
            lambda b, s, n: {"boxes": b, "labels": n},
            Y,
            InvalidModel,
            "must have boxes, scores and labels, got boxes",
        ),
        (lambda b, s, n: {"boxes": b, "scores": s[:, :3], "labels": n}, Y, InvalidModel, r"an image must have boxes"),
    ],
    ids=["few", "no object", "corners", "no labels", "array", "boxes alone", "tuple", "no scores", "lengths"],
)
def test_what_does_not_fit_is_named_before_anything_runs(detector, output, y, error, message):
    model = detector if output is None else Form(detector, output).eval()
    with pytest.raises(error, match=message):
        evaluate(wrap(model, task=Detection()), X, y, [0.1])


def test_the_gradient_of_margins_is_that_of_finite_differences():
    found = np.array([[[0, 0, 4, 4, 0.9, 1], [8, 8, 12, 12, 0.6, 0], [8, 8, 12, 11, 0.5, 0]]] * 2)
    objects = np.concatenate([found[:, :2, [0, 1, 2, 3, 5]], np.full((2, 1, 5), -1.0)], axis=1)
    task, step = Detection(), np.zeros_like(found)
    step[..., 4] = np.random.default_rng(2).standard_normal((2, 3)) * 1e-6
    weights = np.random.default_rng(1).standard_normal((2, 3))
    ahead, behind = (task.margins(found + sign * step, objects)[:, :2] for sign in (1, -1))
    rise = np.sum(weights[:, :2] * (ahead - behind)) / 2
    np.testing.assert_allclose(np.sum(task.pull(found, objects, weights) * step), rise, rtol=1e-4)
    assert np.isneginf(task.margins(found, objects)[:, 2]).all()


def test_options_are_checked():
    with pytest.raises(InvalidInput, match=r"Detection expects kept and overlap above 0 .* got kept=0\.5, overlap=2"):
        Detection(overlap=2)
