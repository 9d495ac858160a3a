"""An LSTM language model on a repeating text, character by character."""

import session
import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 20


class Model(nn.Module):
    def __init__(self, symbols, width=32):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, 64, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(64, symbols)

    def forward(self, tokens, state=None):
        output, state = self.lstm(self.embedding(tokens), state)
        return self.head(output), state


def make_step():
    symbols = sorted(set(TEXT))
    tokens = torch.tensor([symbols.index(c) for c in TEXT])
    model = Model(len(symbols))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    loss_fn = nn.CrossEntropyLoss()

    def step():
        starts = torch.randint(0, len(tokens) - 33, (8,))
        window = torch.stack([tokens[s : s + 33] for s in starts])
        optimizer.zero_grad()
        logits, _ = model(window[:, :-1])
        loss = loss_fn(logits.reshape(-1, len(symbols)), window[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


if __name__ == "__main__":
    session.run(__doc__, make_step)
