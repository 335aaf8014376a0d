"""The model that ships with sapwood; `ATTRIBUTION.md` beside it says what it was trained on."""

from __future__ import annotations

from pathlib import Path


def default_model_path() -> Path:
    """Return the path of the bundled English model."""
    return Path(__file__).with_name("english.sapwood")
