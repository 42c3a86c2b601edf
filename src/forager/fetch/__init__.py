"""All access to the network: the egress guard and the fetchers behind it."""
