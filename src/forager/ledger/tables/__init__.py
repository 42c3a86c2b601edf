"""Tables other than the queue: domains, proxies, robots.txt. They are read rarely and never on a hot path."""
