"""Word clusters: exchange clustering and clusters of latent states."""
