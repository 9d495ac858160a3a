"""What a profile leaves on disk: one module per format, blind to each other."""
