"""Train a small classifier on points of two interleaved spirals, and print its losses."""

import math

import mindtorch_v2 as torch
from mindtorch_v2 import nn


def spirals(points: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `points` noisy positions on each of two spirals, and the spiral each lies on."""
    turn = torch.linspace(0.25, 1.0, points) * 3 * math.pi
    arm = torch.stack([turn * torch.cos(turn), turn * torch.sin(turn)], dim=1) / (3 * math.pi)
    positions = torch.cat([arm, -arm])
    labels = torch.cat([torch.zeros(points), torch.ones(points)]).long()
    return positions + 0.02 * torch.randn(2 * points, 2), labels


def main() -> None:
    torch.manual_seed(0)
    inputs, labels = spirals(100)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for step in range(201):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_fn(outputs, labels)
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            accuracy = (outputs.argmax(1) == labels).float().mean().item()
            print(f"step {step:3d}   loss {loss.item():.4f}   accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
