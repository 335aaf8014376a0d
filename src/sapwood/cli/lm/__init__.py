"""`sapwood lm`: commands for language models."""
