"""How product pages are read: parsers of shops, and what they share. Pure.

The products pipeline and the scrape service read the same pages with the same parsers.
"""
