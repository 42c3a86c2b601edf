"""Pages on demand: a URL and what kind of page it is, and the fields of it come back, each with where it was found."""
