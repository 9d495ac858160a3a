"""Third stage: columns, nesting, metrics, events, averages, comparisons."""
