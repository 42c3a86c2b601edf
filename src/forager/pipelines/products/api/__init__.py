"""The routes of products: the catalogue, crawl jobs and domains, parser health."""
