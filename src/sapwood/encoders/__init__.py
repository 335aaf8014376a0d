"""Pretrained encoders: vectors of words in context, as input of the span scorer (the extra `encoder`)."""
