"""`forager listings …` and `forager markets …`."""
