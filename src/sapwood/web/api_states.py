from __future__ import annotations

ENDPOINTS: list = []
