"""One file per parser: each module here has a value `parser`. The base parser reads any shop.

A new site is one file; nothing else has to be edited. `shipped_parsers` in `extract/products/parser.py` finds it.
"""
