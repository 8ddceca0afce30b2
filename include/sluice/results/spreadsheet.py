"""What spreadsheets would run instead of show."""

from __future__ import annotations

#: Spreadsheets take a text that begins with one of these for a formula (OWASP, CSV Injection).
FORMULA = ("=", "+", "-", "@", "\t", "\r")
