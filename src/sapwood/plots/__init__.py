"""Plots: training curves, singular values, trees."""
