"""What commands print: tables, texts, the phases of long work."""
