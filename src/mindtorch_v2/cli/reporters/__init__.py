"""How results are written: one module a command, one function a format, from data to text."""
