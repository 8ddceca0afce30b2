"""An instance with an inventory, as in the tests of `collection`."""

from tests.collection.conftest import inventory_text, settings

__all__ = ["inventory_text", "settings"]
