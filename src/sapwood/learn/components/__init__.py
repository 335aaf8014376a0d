"""Trainers of a model's components: forest CRF, span scorer and cell pruner."""
