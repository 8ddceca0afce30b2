"""Tables in PostgreSQL, a module each, and what is asked of several of them."""
