"""Running a server: metrics, several processes, replaced models."""
