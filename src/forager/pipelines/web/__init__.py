"""Search the web, then read what was found: through Serper's search, and pages on demand."""
