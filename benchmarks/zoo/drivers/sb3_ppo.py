"""PPO of stable-baselines3 on CartPole at its published settings, for a short time."""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)
model = PPO("MlpPolicy", "CartPole-v1", seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0, device="cpu", n_steps=512)
model.learn(8192)
print("result", -evaluate_policy(model, model.get_env(), n_eval_episodes=10)[0])
