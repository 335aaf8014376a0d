"""Commands for treebanks: `convert`, `search` and `select`."""
