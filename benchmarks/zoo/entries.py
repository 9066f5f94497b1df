"""The table of the zoo: what is trained, in which family, by which file, with which packages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER = Path(__file__).parent

#: Trainings by the code of public repositories: name, family, what is exercised, and what the environment has.
_OF_REPOSITORIES: Final = (
    (
        "set_transformer",
        "set-function",
        "its run.py: mixture clustering, halved rate, test bench",
        "github:juho-lee/set_transformer@73432c640ac78140496d6738416c54d32c686d65",
    ),
    (
        "pointnet_shapes",
        "point-cloud",
        "its train script: StepLR before Adam, transform penalty",
        "github:fxia22/pointnet.pytorch@bafbf401e0af19be3262e448c59313fd2be0e421",
    ),
    (
        "egnn_nbody",
        "equivariant-graph",
        "its simulation, data set and main_nbody.py, best epoch kept",
        "github:vgsatorras/egnn@e9ca6c0c3e1d30a7598efbd66034121b4af8dccc",
    ),
    (
        "efficient_kan",
        "kolmogorov-arnold",
        "its example script: spline layers, AdamW, ExponentialLR",
        "github:Blealtan/efficient-kan@7b6ce1c87f18c8bc90c208f6b494042344216b11",
    ),
    (
        "tabnet_rule",
        "attentive-tabular",
        "TabNetClassifier.fit: callbacks, ghost norm, best weights",
        "github:dreamquark-ai/tabnet@2c0c4ebd2bb1cb639ea94ab4b11823bc49265588",
    ),
    (
        "cox_survival",
        "survival",
        "CoxPH.fit of torchtuples: early stopping, its simulation",
        "github:havakv/pycox@3eccdd7fd9844a060f50fdcc315659f33a2d2dc1",
        "torchtuples==0.2.2",
    ),
    (
        "deep_svdd",
        "anomaly-detection",
        "autoencoder pretraining, then the one-class trainer",
        "github:lukasruff/Deep-SVDD-PyTorch@1901612d595e23675fb75c4ebb563dd0ffebc21e",
    ),
    (
        "tsp_attention",
        "combinatorial-optimisation",
        "its run.py: REINFORCE, rollout baseline, clipping",
        "github:wouterkool/attention-learn-to-route@c9abf41ac2f878a55b20dc7e829bc942bb999631",
    ),
    (
        "federated_average",
        "federated",
        "its federated_main.py: local SGD, averaged weights",
        "github:AshwinRJ/Federated-Learning-PyTorch@26eaec40fa8beb56777feb89756f6401c28c4736",
    ),
    (
        "soft_tree",
        "soft-decision-tree",
        "its main.py: path penalty, Adam with weight decay",
        "github:xuyxu/Soft-Decision-Tree@9b02e635a1265b62df2d831f7f15e1742b0d5002",
    ),
    (
        "spiking_net",
        "spiking",
        "its main.py: surrogate gradient by autograd.Function",
        "github:yjwu17/BP-for-SpikingNN@8453086f0389dc095bd0e3d5ec180cb25021637c",
    ),
    (
        "knowledge_graph",
        "knowledge-graph",
        "its main: margin ranking, negatives, best checkpoint",
        "github:mklimasz/TransE-PyTorch@80e2545d0c7ba689985a1d9a34916fa5b96f57d4",
    ),
    (
        "sharpness_aware",
        "sharpness-aware",
        "its train.py: two-pass SAM optimizer, own StepLR",
        "github:davda54/sam@3c3afdbd71cff2462ec91c734b3d1170bd0f3707",
    ),
    (
        "grokking",
        "grokking",
        "its main: modular sums, AdamW decay 1, LinearLR, wandb fake",
        "github:danielmamay/grokking@9988f8d42bb1edcb54ae7c584cea46dcced16721",
        "einops==0.8.1",
    ),
    (
        "evidential_classifier",
        "evidential",
        "its train_model and evidential loss, annealed KL",
        "github:dougbrion/pytorch-classification-uncertainty@bed225bd20dc4ae88ded9be2d88bdd52e14fd990",
    ),
    (
        "forward_forward",
        "forward-forward",
        "its layers, each with its own Adam, no backpropagation",
        "github:mohammadpz/pytorch_forward_forward@de9de2673fc2bb862fed85106b456ea707333d50",
    ),
    (
        "learning_to_rank",
        "learning-to-rank",
        "its fit, data set, transformer and ApproxNDCG loss",
        "github:allegro/allRank@c88475661cb72db292d13283fdbc4f2ae6498ee4",
    ),
    (
        "hopfield_bits",
        "associative-memory",
        "HopfieldPooling on its BitPatternSet; own short loop",
        "github:ml-jku/hopfield-layers@f56f929c95b77a070ae675ea4f56b6d54d36e730",
    ),
    (
        "glimpse_attention",
        "hard-attention",
        "its Trainer: hybrid REINFORCE loss, ReduceLROnPlateau",
        "github:kevinzakka/recurrent-visual-attention@a38ac8958ebf1c61a10c4d5320f1e31d3d0b73dd",
    ),
    (
        "nanogpt_code",
        "language-model",
        "its train.py whole: accumulation, cosine rate, scaler",
        "github:karpathy/nanoGPT@3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    ),
    (
        "neural_cde",
        "neural-controlled-equation",
        "its cdeint and example model by adjoint; own short loop",
        "github:patrick-kidger/NeuralCDE@7e529f58441d719d2ce85f56bdee3208a90d5132",
        "torchdiffeq==0.2.5",
    ),
)

#: What an environment has, pinned; a group shares one environment. Torch is that of the process that runs the zoo.
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
    **{name: tuple(given) for name, _, _, *given in _OF_REPOSITORIES},
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
        "anomaly-detection",
        "combinatorial-optimisation",
        "continuous-control",
        "cross-validation",
        "discrete-autoencoder",
        "domain-adaptation",
        "equivariant-graph",
        "evidential",
        "graph-classification",
        "grokking",
        "hard-attention",
        "masked-language-model",
        "mixture-density",
        "neural-controlled-equation",
        "pruning",
        "quantisation-aware",
        "sentence-embedding",
        "sharpness-aware",
        "soft-decision-tree",
        "spiking",
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
    *(Entry(name, family, name, kinds) for name, family, kinds, *_ in _OF_REPOSITORIES),
)

ENTRIES: Final[dict[str, Entry]] = {entry.name: entry for entry in _TABLE}

#: Families with a program whose findings were read while rules were written for the release under way.
WORKED_ON: Final = frozenset(entry.family for entry in _TABLE[: [*ENTRIES].index(_LAST_READ) + 1]) | _READ_SINCE
