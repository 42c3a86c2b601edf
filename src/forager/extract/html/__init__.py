"""Readers of HTML: the parsed page, structured data, main text, kind of page."""
