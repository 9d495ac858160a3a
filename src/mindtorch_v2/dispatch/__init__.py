"""How a row becomes functions: schema, generated code, recording, the slow path."""
