"""`forager scrape …`."""
