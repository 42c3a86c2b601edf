"""Pages on demand: a URL and what kind of page it is, and the fields of it come back, each with where it was found.

Start reading at `pipeline.py`. Nothing is imported here: the command line loads this package to print its help.
"""
