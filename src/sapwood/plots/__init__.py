"""Every picture: training curves, singular values."""
