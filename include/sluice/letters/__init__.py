"""Dead letters: why each is one, the whole of its line, and how it comes to count."""
