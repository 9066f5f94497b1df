"""A2C of stable-baselines3 on Acrobot's easier sister, CartPole, several environments."""

import sys

import torch
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
model = A2C("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=seed), seed=seed, device="cpu", ent_coef=0.0)
model.learn(30000)
print("result", -evaluate_policy(model, model.get_env(), n_eval_episodes=10)[0])
