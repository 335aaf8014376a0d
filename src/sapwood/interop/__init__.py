"""sapwood inside other packages, and their grammars in sapwood; modules are named after the package that they need."""
