"""Pages on demand: given a URL and its page type, returns the page's fields, each with where it was found.

Start reading at `pipeline.py`. This module imports nothing, because the command line loads the package to print its
help.
"""
