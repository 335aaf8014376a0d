"""Runtime: progress, logs, checkpoints, configuration, plugins and executors."""
