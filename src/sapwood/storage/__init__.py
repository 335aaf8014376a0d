"""Files: arrays and JSON in one checked file, schemas, atomic writes, Zstandard."""
