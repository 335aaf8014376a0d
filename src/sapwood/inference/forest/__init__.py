"""Packed forests: k-best trees, samples and states of trees."""
