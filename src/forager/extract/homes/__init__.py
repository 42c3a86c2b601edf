"""How pages of homes for rent or sale are read. Pure."""
