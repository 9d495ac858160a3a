"""Memory that tensors share: who looks at it, and how it grows."""
