"""Commands for model files: `inspect`, `import`, `minimise`, `package` and `models`."""
