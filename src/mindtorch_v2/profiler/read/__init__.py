"""Fourth stage: traces and spools of other processes, read back into captures."""
