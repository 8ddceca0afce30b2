"""How the Data Docs' pages look: their template, their styles and their scripts."""
