"""What processes do in the tests of shared memory; spawned ones import this and nothing of pytest."""

from typing import Any

import mindtorch_v2 as torch
import mindtorch_v2.multiprocessing as mp


def train(model: Any, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()


def echo(inbox: Any, outbox: Any) -> None:
    """Add one to what comes, and send it back, until None comes."""
    while (message := inbox.get()) is not None:
        for t in message:
            t.add_(1)
        outbox.put(message)
    inbox.get()  # descriptors that nobody has fetched end with their sender


def serve(connection: Any, strategies: list[str]) -> None:
    """For each strategy take a tensor, and send one that changes afterwards."""
    for strategy in strategies:
        mp.set_sharing_strategy(strategy)
        t = connection.recv()
        made = torch.full((2,), 5.0)
        connection.send([t.is_shared(), made])
        made.add_(t)
        connection.send(None)
    connection.recv()


def doubled(t: Any) -> Any:
    return t.mul_(2)
