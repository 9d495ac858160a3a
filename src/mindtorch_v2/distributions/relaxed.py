"""Discrete samples softened so that gradients flow through them."""

from __future__ import annotations

from typing import Any

from .transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """Samples between the choices, the closer to them the lower the temperature."""

    base_dist: Any

    @property
    def temperature(self) -> Any:
        """How soft the choices are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Log-odds or log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self.base_dist.probs


__all__ = ["Relaxed"]
