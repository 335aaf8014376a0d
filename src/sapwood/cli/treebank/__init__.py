"""Commands for treebanks: `convert`, `rewrite`, `search`, `select`, `split` and `tokenise`."""
