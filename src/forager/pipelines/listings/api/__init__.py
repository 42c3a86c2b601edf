"""The HTTP routes of listings and markets."""
