"""Business listings by keyword and ZIP code, through the Serper places API. Start reading at `pipeline.py`.

This module imports nothing, because the command line loads the package to print its help.
"""
