"""The queries behind the routes of listings and markets."""
