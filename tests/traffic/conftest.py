"""An instance with an inventory, as the tests of `collection` have it."""

from tests.collection.conftest import inventory_text, settings

__all__ = ["inventory_text", "settings"]
