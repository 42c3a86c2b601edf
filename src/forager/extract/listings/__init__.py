"""Reads pages of homes for rent or sale. Pure."""
