"""Latent bigram models: aggregate Markov models, anchor words and mixed orders."""
