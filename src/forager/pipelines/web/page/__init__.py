"""The web search page of the dashboard: ES modules, served as they are."""
