"""Named results: torch.return_types."""

from __future__ import annotations

import mindtorch_v2 as torch


def test_results_are_tuples_with_names() -> None:
    found = torch.tensor([[1.0, 3.0], [2.0, 0.0]]).max(1)
    assert isinstance(found, torch.return_types.max)
    assert found.values.tolist() == found[0].tolist() == [3.0, 2.0]
    assert found.indices.tolist() == [1, 0]
    assert (found.n_fields, found.n_sequence_fields, found.n_unnamed_fields) == (2, 2, 0)
    assert repr(found) == "torch.return_types.max(\nvalues=tensor([3., 2.]),\nindices=tensor([1, 0]))"


def test_a_result_is_made_from_one_sequence() -> None:
    made = torch.return_types.topk((torch.ones(1), torch.zeros(1)))
    assert made.values.tolist() == [1.0]
    assert made.indices.tolist() == [0.0]


def test_results_in_out_have_the_same_fields() -> None:
    outs = torch.empty(2), torch.empty(2, dtype=torch.int64)
    found = torch.sort(torch.tensor([2.0, 1.0]), out=outs)
    assert found.values is outs[0]
    assert torch.return_types.sort_out is torch.return_types.sort
