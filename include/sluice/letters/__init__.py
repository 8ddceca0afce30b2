"""Dead letters: why each is one, the whole of its line, and how it and all lines come into another topic."""
