"""A variational autoencoder on synthetic images."""

import session
import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(784, 128)
        self.mean, self.log_variance = nn.Linear(128, 16), nn.Linear(128, 16)
        self.decoder = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 784))

    def forward(self, x):
        h = F.relu(self.encoder(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.decoder(z)), mean, log_variance


def make_step():
    prototypes = torch.rand(10, 784)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        picked = torch.randint(0, 10, (64,))
        x = torch.bernoulli(prototypes[picked])
        optimizer.zero_grad()
        rebuilt, mean, log_variance = model(x)
        reconstruction = F.binary_cross_entropy(rebuilt, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        loss = (reconstruction + divergence) / len(x)
        loss.backward()
        optimizer.step()
        return loss

    return step


if __name__ == "__main__":
    session.run(__doc__, make_step)
