"""Reads product pages: parsers of shops, and the code they share. Pure.

The products pipeline and the scrape service read the same pages with the same parsers.
"""
