"""The Elasticsearch sink: records in an external search index, which product searches then use. Start at `wiring.py`.

It speaks the part of the REST interface that Elasticsearch 8 and 9 and OpenSearch 2 and 3 have in common, over plain
HTTP: the official Elasticsearch client refuses to talk to OpenSearch.
"""
