"""Programs as a user of `ms.watch` has them: a table of the lines that README and docs/scalars.md tell one to add."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..mutations.program import Program


@dataclass(frozen=True, slots=True)
class Insertion:
    """Lines that are put beside one line of a program, with its indentation.

    Args:
        lines: What is put in.
        after: The line's text without indentation, which stands once in the program; lines that come after it.
        before: As `after`, for lines that come before it; where both are given, this one is for a program without the
            first, since a mutant may have changed it.
        is_needed: Without it the program is not watched, or fails.
    """

    lines: tuple[str, ...]
    after: str = ""
    before: str = ""
    is_needed: bool = False


def with_insertions(source: str, insertions: tuple[Insertion, ...]) -> str | None:
    """Return the text of a program with the lines put in, of those that find their place.

    Returns:
        None if one that is needed finds none.
    """
    old = source.split("\n")
    stripped = [line.strip() for line in old]
    added: dict[int, list[str]] = {}
    for insertion in insertions:
        at, place = _place(stripped, insertion)
        if at is not None:
            indent = old[place][: len(old[place]) - len(old[place].lstrip())]
            added.setdefault(at, []).extend(indent + line for line in insertion.lines)
        elif insertion.is_needed:
            return None
    new = [line for at, kept in enumerate([*old, None]) for line in (*added.get(at, ()), kept) if line is not None]
    program = Program("\n".join(new))
    return program.edited((program.at_top("import mindscope as ms"),))


def _place(stripped: list[str], insertion: Insertion) -> tuple[int | None, int]:
    """Return the index of the line before which to insert, and the one of the line that is looked for."""
    for text, offset in ((insertion.after, 1), (insertion.before, 0)):
        if text and stripped.count(text) == 1:
            place = stripped.index(text)
            return place + offset, place
    return None, 0


def write_logged(name: str, script: Path, into: Path) -> Path | None:
    """Write the program of an entry, or a mutant of it, with the lines put in; what a mutant needs is copied along.

    Args:
        name: Of the entry.
        into: A folder of its own.

    Returns:
        The new script; None if the table has no lines for the program, or those that are needed find no place.
    """
    text = with_insertions(script.read_text(encoding="utf-8"), INSERTIONS[name]) if name in INSERTIONS else None
    if text is None:
        return None
    into.mkdir(parents=True, exist_ok=True)
    for beside in ("planted.py", "mutant"):
        if (script.parent / beside).exists():
            shutil.copy(script.parent / beside, into / beside)
    written = into / script.name
    written.write_text(text, encoding="utf-8")
    return written


def _watch(*lines: str, after: str = "", before: str = "") -> Insertion:
    return Insertion(lines, after, before, is_needed=True)


def _held_out(*lines: str) -> tuple[str, ...]:
    """Return lines that draw data once, without a trace in the random numbers of the program."""
    return ("with torch.random.fork_rng():", "    torch.manual_seed(12345)", *(f"    {line}" for line in lines))


def _validation(model: str, when: str, loss: str, *, before_it: str = "", accuracy: str = "") -> tuple[str, ...]:
    """Return lines that evaluate a model in its own mode and log what comes out."""
    values = f'"validation/loss": float({loss})'
    values += f', "validation/accuracy": float({accuracy})' if accuracy else ""
    evaluation = [
        f"was_training = {model}.training",
        f"{model}.eval()",
        "with torch.no_grad():",
        *([f"    {before_it}"] if before_it else []),
        f"    monitor.log({{{values}}})",
        f"{model}.train(was_training)",
    ]
    return (f"if {when}:", *(f"    {line}" for line in evaluation))


_WATCH: Final = "monitor = ms.watch(model, optimizer)"
_OF_THE_BATCHES: Final = (
    'monitor.log({"reward/mean": float(rewards.mean()), "reward/std": float(rewards.std())})',
    'monitor.log({"policy/entropy": entropy.mean().item(), "advantage/std": float(b_advantages[mb].std())})',
    "with torch.no_grad():",
    "    clipped = ((ratio - 1).abs() > args.clip_coef).float().mean()",
    '    monitor.log({"policy/kl": float((ratio - 1 - ratio.log()).mean()), "policy/clip_share": float(clipped)})',
)

#: By the name of an entry.
INSERTIONS: Final[Mapping[str, tuple[Insertion, ...]]] = {
    "charlm": (
        _watch(
            _WATCH,
            *_held_out('held = [get_batch("val") for _ in range(4)]'),
            after="optimizer = torch.optim.AdamW("
            "model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)",
            before="for it in range(max_iters):",
        ),
        Insertion(
            _validation("model", "it % 20 == 0", "sum(model(*batch)[1] for batch in held) / 4"),
            after="optimizer.step()",
            before='xb, yb = get_batch("train")',
        ),
    ),
    "cnn": (
        _watch(
            "global monitor",
            _WATCH,
            after="optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)",
            before="scheduler = CosineAnnealingLR(optimizer, T_max=args.epochs)",
        ),
        Insertion(
            ('monitor.log({"train/accuracy": float(output.argmax(dim=1).eq(target).float().mean())})',),
            before="if batch_idx % 20 == 0:",
        ),
        Insertion(
            (
                "shares = test_loss / len(loader.dataset), correct / len(loader.dataset)",
                'monitor.log({"validation/loss": shares[0], "validation/accuracy": shares[1]})',
            ),
            before="return test_loss / len(loader.dataset)",
        ),
    ),
    "vae": (
        _watch(
            _WATCH,
            after="optimizer = optim.Adam(model.parameters(), lr=1e-3)",
            before="for epoch in range(1, 13):",
        ),
        Insertion(  # the loss is summed over a batch of 64
            ('monitor.log({"validation/loss": 64 * test_loss})',),
            after='print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_set):.4f} test {test_loss:.4f}")',
        ),
    ),
    "gan": (
        _watch(
            'networks = nn.ModuleDict({"generator": netG, "discriminator": netD})',
            "monitor = ms.watch(networks, [optimizerD, optimizerG])",
            after="optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))",
            before="for i in range(1800):",
        ),
    ),
    "dqn": (
        _watch(
            "monitor = ms.watch(policy_net, optimizer)",
            after="optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)",
            before="memory = deque([], maxlen=10000)",
        ),
        Insertion(('monitor.log({"reward/mean": float(length)})',), after="lengths.append(length)"),
    ),
    "ppo": (
        _watch(
            "monitor = ms.watch(agent, optimizer)",
            after="optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)",
            before="T, N = args.num_steps, args.num_envs",
        ),
        Insertion(_OF_THE_BATCHES, after="optimizer.step()", before="if iteration % 10 == 0:"),
    ),
    "gcn": (
        _watch(
            _WATCH,
            after="optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)",
            before="for epoch in range(500):",
        ),
        Insertion(
            (
                "right = (output[idx_val].argmax(1) == labels[idx_val]).float().mean()",
                'monitor.log({"validation/loss": float(loss_val), "validation/accuracy": float(right)})',
            ),
            after='print(f"Epoch: {epoch:04d} loss_train: {loss_train.item():.4f} loss_val: {loss_val.item():.4f}")',
        ),
    ),
    "lstm_forecast": (
        _watch(
            _WATCH,
            after="optimizer = torch.optim.Adam(model.parameters(), lr=0.003)",
            before="num_epochs = 6",
        ),
        Insertion(
            ('monitor.log({"validation/loss": val})',),
            after='print(f"Epoch [{epoch + 1}/{num_epochs}], Loss: {epoch_loss / len(loader):.4f}, Val: {val:.4f}")',
        ),
    ),
    "simclr": (
        _watch(
            _WATCH,
            *_held_out("held, _ = content(256)", "held_views = view(held), view(held)"),
            after="optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)",
            before="for step in range(1200):",
        ),
        Insertion(
            _validation("model", "step % 50 == 0", "nt_xent(*(model(views) for views in held_views))"),
            before="if step % 200 == 0:",
        ),
    ),
    "lora": (
        _watch(
            "global monitor",
            _WATCH,
            *_held_out("held_x, held_y = task(256)"),
            after="optimizer = torch.optim.AdamW(trainable, lr=lr)",
            before="for step in range(steps):",
        ),
        Insertion(
            _validation(
                "model",
                "step % 20 == 0",
                "F.cross_entropy(held, held_y)",
                before_it="held = model(held_x)",
                accuracy="(held.argmax(1) == held_y).float().mean()",
            ),
            before="if step % 150 == 0:",
        ),
        _watch("monitor.close()", after="fit(backbone, source_task, 300, 2e-3)"),
    ),
    "ddp_regression": (
        _watch(
            _WATCH,
            "held_x, held_y = data(500, torch.Generator().manual_seed(12345))",
            "batches = 0",
            after="optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)",
            before="loss_fn = nn.MSELoss()",
        ),
        Insertion(
            (
                "batches += 1",
                *_validation("model", "batches % 20 == 0", "loss_fn(model.module(held_x), held_y)"),
            ),
            after="optimizer.step()",
        ),
        Insertion(("monitor.close()",), before="dist.barrier()"),
    ),
    "fsdp_classifier": (
        _watch(
            _WATCH,
            *_held_out("held_x, held_y = chirps(200)"),
            after="optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
            before="for step in range(400):",
        ),
        Insertion(
            _validation(
                "model",
                "step % 20 == 0",
                "F.cross_entropy(held, held_y)",
                before_it="held = model(held_x)",
                accuracy="(held.argmax(1) == held_y).float().mean()",
            ),
            before="if rank == 0 and step % 100 == 0:",
        ),
        Insertion(("monitor.close()",), before="dist.barrier()"),
    ),
    "distillation": (
        _watch("monitor = ms.watch(teacher, opt)", before="for step in range(500):"),
        _watch("monitor.close()", after="teacher.eval()"),
        _watch(
            "monitor = ms.watch(student, opt)",
            *_held_out("held_x, held_y = draw(512)"),
            before="for step in range(900):",
        ),
        Insertion(
            _validation(
                "student",
                "step % 20 == 0",
                "alpha * held_kd + (1 - alpha) * F.cross_entropy(held, held_y)",
                before_it="held, soft = student(held_x), F.softmax(teacher(held_x) / T, dim=1); held_kd = "
                'F.kl_div(F.log_softmax(held / T, dim=1), soft, reduction="batchmean") * T * T',
                accuracy="(held.argmax(1) == held_y).float().mean()",
            ),
            before="if step % 200 == 0:",
        ),
    ),
    "triplet": (
        _watch(
            _WATCH,
            *_held_out(
                "held_a = torch.randint(0, 30, (256,))",
                "held_n = (held_a + torch.randint(1, 30, (256,))) % 30",
                "held = sample(held_a), sample(held_a), sample(held_n)",
            ),
            after="optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
            before="for step in range(1500):",
        ),
        Insertion(
            _validation("model", "step % 50 == 0", "criterion(*(model(part) for part in held))"),
            before="if step % 300 == 0:",
        ),
    ),
    "detector": (
        _watch(
            _WATCH,
            after="optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)",
            before="train, test = scenes(1500), scenes(300)",
        ),
        Insertion(
            _validation("model", "True", "sum(losses(model, *test))"), before="print(epoch, focal.item(), l1.item())"
        ),
    ),
    "skipgram": (
        _watch(
            _WATCH,
            *_held_out("held = (*pairs(1000), torch.randint(0, WORDS, (1000, 5)))"),
            after="optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=5e-3)",
            before="for step in range(1500):",
        ),
        Insertion(_validation("model", "step % 50 == 0", "model(*held)"), before="if step % 300 == 0:"),
    ),
    "ctc": (
        _watch(
            "monitor = ms.watch(net, optimizer)",
            *_held_out("held_audio, held_text = utterances(64)"),
            after="optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)",
            before="for step in range(400):",
        ),
        Insertion(
            _validation(
                "net",
                "step % 20 == 0",
                "ctc_loss(net(held_audio), held_text, torch.full((64,), 24), torch.full((64,), 4))",
            ),
            before="if step % 100 == 0:",
        ),
    ),
    "bandit": (
        _watch(
            "monitor = ms.watch(policy, optimizer)",
            after="optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)",
            before="baseline, kept = 0.0, []",
        ),
        Insertion(
            (
                'monitor.log({"reward/mean": float(reward.mean()), "reward/std": float(reward.std())})',
                'monitor.log({"policy/entropy": choice.entropy().mean().item()})',
                'monitor.log({"advantage/std": float((reward - baseline).std())})',
            ),
            after="optimizer.step()",
            before="baseline = 0.95 * baseline + 0.05 * reward.mean().item()",
        ),
    ),
}
