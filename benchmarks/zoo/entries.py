"""The table of the zoo: what is trained, in which family, by which file, with which packages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER = Path(__file__).parent

#: Packages of an environment, pinned; a group shares one environment. Torch is that of the process that runs the zoo.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "plain": (),
    "hugging-face": (
        "transformers==5.23.0",
        "accelerate==1.15.0",
        "peft==0.21.2",
        "trl==1.16.0",
        "datasets==5.2.0",
        "sentence-transformers==6.2.0",
    ),
    "diffusers": ("diffusers==0.42.1",),
    "images": ("timm==1.0.31", "torchvision==0.28.0"),
    "agents": ("stable-baselines3==2.9.2", "gymnasium==1.4.0"),
    "graphs": ("torch_geometric==2.8.1",),
    "mathematics": ("gpytorch==1.15.2", "torchdiffeq==0.2.5"),
    "trainers": ("lightning==2.6.6", "accelerate==1.15.0"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One healthy training.

    Args:
        family: Trainings of one family are all for work, or all sealed.
        group: Key of `GROUPS`: its environment.
        kinds: What of the library it exercises, for a person.
        was_run: Somebody has seen it run; any other runs only if its group is named.
    """

    name: str
    family: str
    group: str
    kinds: str
    was_run: bool = True

    @property
    def program(self) -> Path:
        """The script: a stranger's whole program, or a driver of at most 40 lines for other people's packages."""
        folder = "programs" if self.group == "plain" else "drivers"
        return _FOLDER / folder / f"{self.name}.py"


#: Entries up to this one were read in this release, and those of these families; new ones go to the end of the table.
_LAST_READ = "tabular"
_READ_SINCE = frozenset(
    {
        "adversarial-training",
        "continuous-control",
        "cross-validation",
        "discrete-autoencoder",
        "domain-adaptation",
        "graph-classification",
        "masked-language-model",
        "mixture-density",
        "pruning",
        "quantisation-aware",
        "sentence-embedding",
        "vision-transformer",
    }
)

_TABLE = (
    Entry("charlm", "language-model", "plain", "GPT, warm-up and cosine by hand, clipping"),
    Entry("moe_lm", "mixture-of-experts", "plain", "top-2 routing, balance loss, one-cycle rate"),
    Entry("encoder_classifier", "text-classifier", "plain", "TransformerEncoder, padding, label smoothing"),
    Entry("seq2seq_gru", "sequence-to-sequence", "plain", "two modules, two optimizers, teacher forcing"),
    Entry("cnn", "image-classifier", "plain", "batch norm, SGD with momentum, augmentation"),
    Entry("unet", "segmentation", "plain", "U-Net, Dice and cross-entropy"),
    Entry("vae", "variational-autoencoder", "plain", "summed loss, reparameterisation"),
    Entry("gan", "adversarial", "plain", "two optimizers, two backward passes of the critic"),
    Entry("wgan_gp", "adversarial", "plain", "gradient penalty, five critic steps"),
    Entry("simclr", "contrastive", "plain", "two views, NT-Xent"),
    Entry("clip_towers", "contrastive", "plain", "two towers, learned temperature"),
    Entry("byol", "self-distillation", "plain", "teacher by moving average"),
    Entry("lstm_forecast", "forecasting", "plain", "LSTM, clipping, loader"),
    Entry("gcn", "graph", "plain", "full batch, few labels"),
    Entry("recommender", "recommender", "plain", "matrix factorisation"),
    Entry("flow", "normalising-flow", "plain", "RealNVP, negative log-likelihood"),
    Entry("pinn", "physics-informed", "plain", "second derivatives in the loss"),
    Entry("neural_ode", "neural-ode", "plain", "solver in the forward pass, RMSprop"),
    Entry("siren", "coordinate-network", "plain", "full batch, sines"),
    Entry("dqn", "value-learning", "plain", "replay, target network, random actions"),
    Entry("ppo", "policy-gradient", "plain", "clipped ratio, advantages, rate to zero"),
    Entry("a2c", "policy-gradient", "plain", "one episode a step, batches of changing size"),
    Entry("ddpm", "diffusion", "plain", "noise prediction, moving average of weights"),
    Entry("multitask", "multi-task", "plain", "three losses, learned weights, negative loss"),
    Entry("maml", "meta-learning", "plain", "functional parameters, inner steps"),
    Entry("lora", "fine-tuning", "plain", "frozen backbone, low-rank adapters, two phases"),
    Entry("lbfgs", "full-batch", "plain", "LBFGS with a closure, float64"),
    Entry("checkpointed_lm", "language-model", "plain", "activation checkpointing, tied embedding, warm-up"),
    Entry("compiled_mixer", "compiled", "plain", "torch.compile, Nesterov momentum, one-cycle rate"),
    Entry("curriculum", "curriculum", "plain", "sequences that grow: the loss rises at every change"),
    Entry("ddp_regression", "data-parallel", "plain", "two processes under DDP, spawned by the program"),
    Entry("fsdp_classifier", "sharded", "plain", "two processes under FSDP2, spawned by the program"),
    Entry("tabular", "tabular", "plain", "embeddings and numbers, two inputs"),
    Entry("distillation", "distillation", "plain", "frozen teacher, two phases, divergence"),
    Entry("qat", "quantisation-aware", "plain", "straight-through gradients"),
    Entry("triplet", "metric-learning", "plain", "margin loss that reaches zero"),
    Entry("detector", "detection", "plain", "focal loss, sizes only where objects are"),
    Entry("skipgram", "word-vectors", "plain", "sparse gradients, SparseAdam"),
    Entry("ctc", "speech", "plain", "CTC, bidirectional LSTM"),
    Entry("bandit", "bandit", "plain", "REINFORCE, a loss without a floor"),
    Entry("bf16_vit", "vision-transformer", "plain", "autocast, accumulation"),
    Entry("gpt2_trainer", "language-model", "hugging-face", "Trainer, evaluation in mid-run"),
    Entry("bert_classifier", "text-classifier", "hugging-face", "plain loop, gradients cleared after the step"),
    Entry("t5_copy", "sequence-to-sequence", "hugging-face", "Seq2SeqTrainer"),
    Entry("mamba_lm", "state-space", "hugging-face", "Mamba, ignored labels"),
    Entry("mixtral_lm", "mixture-of-experts", "hugging-face", "accelerate with accumulation, router loss"),
    Entry("peft_lora", "fine-tuning", "hugging-face", "peft, frozen backbone"),
    Entry("trl_sft", "supervised-fine-tuning", "hugging-face", "trl, SFTTrainer"),
    Entry("trl_dpo", "preference", "hugging-face", "trl, DPOTrainer with a reference model"),
    Entry("trl_grpo", "preference", "hugging-face", "trl, GRPOTrainer, generation between steps"),
    Entry("sentence_pairs", "sentence-embedding", "hugging-face", "in-batch negatives, its own trainer"),
    Entry("unet_diffusion", "diffusion", "diffusers", "diffusers, moving average of weights"),
    Entry("timm_vit", "vision-transformer", "images", "timm, its scheduler", was_run=False),
    Entry("vision_resnet", "image-classifier", "images", "torchvision, batch norm", was_run=False),
    Entry("sb3_ppo", "policy-gradient", "agents", "stable-baselines3"),
    Entry("sb3_dqn", "value-learning", "agents", "stable-baselines3, replay"),
    Entry("sb3_a2c", "policy-gradient", "agents", "stable-baselines3, several environments, RMSprop"),
    Entry("pyg_sage", "graph", "graphs", "torch_geometric, full batch"),
    Entry("pyg_graphs", "graph-classification", "graphs", "torch_geometric, batches of graphs"),
    Entry("gp_exact", "gaussian-process", "mathematics", "gpytorch, full batch, negative loss"),
    Entry("ode_adjoint", "neural-ode", "mathematics", "torchdiffeq, gradients by the adjoint"),
    Entry("lightning_autoencoder", "autoencoder", "trainers", "Lightning, the target is the input by design"),
    Entry("masked_lm", "masked-language-model", "plain", "most positions ignored, tied weights"),
    Entry("sac", "continuous-control", "plain", "twin critics, learned temperature, parameters frozen in turn"),
    Entry("vqvae", "discrete-autoencoder", "plain", "straight-through codes, commitment loss"),
    Entry("adversarial_training", "adversarial-training", "plain", "attack in every step, evaluation mode in it"),
    Entry("mixture_density", "mixture-density", "plain", "four modules without a class, negative loss"),
    Entry("domain_adaptation", "domain-adaptation", "plain", "reversed gradient, a loss that must not fall"),
    Entry("cross_validation", "cross-validation", "plain", "five models one after the other, early stopping"),
    Entry("pruning", "pruning", "plain", "masks of torch, four optimizers on one model"),
)

ENTRIES: Final[dict[str, Entry]] = {entry.name: entry for entry in _TABLE}

#: Families with a program whose findings were read while rules were written for the release under way.
WORKED_ON: Final = frozenset(entry.family for entry in _TABLE[: [*ENTRIES].index(_LAST_READ) + 1]) | _READ_SINCE
