"""What fast code is checked against: slow twins, and the papers' algebra on exact statistics.

Each fast algorithm has a slow, obvious twin; `reference` is that of inference. Learners are checked against the
population versions of the papers' methods, where exact moments take the place of samples.
"""
