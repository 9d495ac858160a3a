"""Last stage: what users hold, behind the names of torch.profiler."""
