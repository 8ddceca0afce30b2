"""`sluice demo`: the whole platform on one log."""
