"""Charts: compiled models, pruning and posteriors of one sentence."""
