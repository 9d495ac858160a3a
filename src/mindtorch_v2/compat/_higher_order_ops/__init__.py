"""torch._higher_order_ops, of which libraries use the scan."""

from .associative_scan import associative_scan

__all__ = ["associative_scan"]
