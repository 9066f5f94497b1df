"""Exact Gaussian process of gpytorch on a noisy sine: marginal likelihood, full batch."""

import sys

import gpytorch
import torch

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
x = torch.rand(150).sort().values * 6
y = torch.sin(2 * x) + 0.1 * torch.randn(150)


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = ExactGP(x, y, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
model.train(), likelihood.train()
for step in range(300):
    optimizer.zero_grad()
    loss = -mll(model(x), y)
    loss.backward()
    optimizer.step()
model.eval(), likelihood.eval()
with torch.no_grad():
    grid = torch.rand(400) * 6
    print("result", (model(grid).mean - torch.sin(2 * grid)).pow(2).mean().item())
