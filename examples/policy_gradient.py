"""A policy-gradient loop: an agent learns which of a few arms pays, and how that depends on what it sees."""

import session
import torch
from torch import nn
from torch.distributions import Categorical


def make_step():
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-3)
    best_arm = torch.randn(4, 3)
    baseline = 0.0

    def step():
        nonlocal baseline
        states = torch.randn(32, 4)
        choice = Categorical(logits=policy(states))
        actions = choice.sample()
        rewards = (actions == (states @ best_arm).argmax(dim=1)).float()
        advantage = rewards - baseline
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        loss = -(choice.log_prob(actions) * advantage).mean() - 0.01 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


if __name__ == "__main__":
    session.run(__doc__, make_step)
