"""The domain types and the ports, which every package may import. No I/O, and no imports of our other packages."""
