"""Runs a program that says `import torch` with this package in torch's place."""
