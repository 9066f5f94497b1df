"""DQN of stable-baselines3 on CartPole with the settings of its zoo, for a short time."""

import sys

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)
model = DQN(
    "MlpPolicy",
    "CartPole-v1",
    seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0,
    device="cpu",
    learning_rate=2.3e-3,
    batch_size=64,
    buffer_size=100000,
    learning_starts=1000,
    gamma=0.99,
    target_update_interval=10,
    train_freq=256,
    gradient_steps=128,
    exploration_fraction=0.16,
    exploration_final_eps=0.04,
    policy_kwargs={"net_arch": [256, 256]},
)
model.learn(8000)
print("result", -evaluate_policy(model, model.get_env(), n_eval_episodes=10)[0])
