"""Latent-variable PCFGs: EM, split-merge and treebank PCFGs."""
