"""torch.backends.quantized: no engine for quantized tensors is there."""

engine = "none"
supported_engines = ["none"]
