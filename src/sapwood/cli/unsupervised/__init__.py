"""Commands that learn without trees: `induce`, `identify` and `anchors`."""
