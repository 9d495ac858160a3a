"""A small convolutional network on synthetic 28x28 images, fed by a DataLoader."""

import session
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.relu(self.conv2(x))
        return self.head(torch.flatten(x, 1))


def make_step():
    labels = torch.randint(0, 10, (256,))
    images = 0.3 * torch.randn(256, 1, 28, 28)
    images[torch.arange(256), 0, labels * 2, :] += 2.0
    loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = iter(())

    def step():
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        x, y = batch
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


if __name__ == "__main__":
    session.run(__doc__, make_step)
