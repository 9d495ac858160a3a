"""torch.ao: of the tools that make models smaller, the names that float models carry."""
