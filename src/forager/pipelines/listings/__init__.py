"""Apartment listings that stay fresh. Start reading at `markets.py`: what is scraped, and how fast it ages."""
