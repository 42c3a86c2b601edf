"""Business listings by keyword and ZIP code, through the Serper places API. Start reading at `pipeline.py`.

Nothing is imported here: the command line loads this package to print its help.
"""
