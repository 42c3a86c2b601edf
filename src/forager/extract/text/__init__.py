"""Readers of text: addresses, prices, URLs, phone numbers, salaries."""
