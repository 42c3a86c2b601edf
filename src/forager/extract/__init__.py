"""Pure readings of HTML and text, for every pipeline: structured data, URLs, places, phones. No I/O, no clock.

Nothing in this package raises over what a page holds, and nothing takes long over it: sizes are bounded on the way in.
"""
