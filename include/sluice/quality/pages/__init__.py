"""How the Data Docs' pages look: their template, and the styles and scripts that lie beside them."""
