"""The queries of products: the catalogue, domains, parser health, stored pages."""
