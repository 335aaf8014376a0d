"""Integration with other packages; modules are named after the package that they need."""
