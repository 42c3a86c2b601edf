"""A shop's products, crawled politely, kept current and searchable.

Start reading at `pipeline.py`. Nothing is imported here: the command line loads this package to print its help.
"""
