"""How many examples each property is tried on: ``make fast`` takes a tenth of them.

They are the same each time, so that the same code passes or fails the same way.
``pytest --hypothesis-profile explore`` draws others, ten times as many.
"""

from __future__ import annotations

from hypothesis import settings

EVERY = 100  # examples of a test that names no number, in make test
QUICK = 10  # the same in make fast

# There is no deadline, since the time of an example is no property of what is tested.
settings.register_profile("every", deadline=None, max_examples=EVERY, derandomize=True)
settings.register_profile("quick", deadline=None, max_examples=QUICK, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=10 * EVERY)
settings.load_profile("every")


def examples(number: int) -> settings:
    """A decorator: ``number`` examples where a test without it has 100."""
    return settings(max_examples=max(number * settings.default.max_examples // EVERY, 1))
