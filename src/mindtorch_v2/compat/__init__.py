"""What answers as a torch without that feature would, under torch's names (`mindtorch_v2.cuda`, see `core.addresses`)."""
