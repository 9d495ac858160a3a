"""A multi-layer perceptron on synthetic digits."""

import session
import torch
from torch import nn


def make_step():
    centres = torch.randn(10, 784)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)

    def step():
        labels = torch.randint(0, 10, (64,))
        images = centres[labels] + 0.5 * torch.randn(64, 784)
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


if __name__ == "__main__":
    session.run(__doc__, make_step)
