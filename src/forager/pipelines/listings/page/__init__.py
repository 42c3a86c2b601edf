"""The listings page of the dashboard: ES modules, served as they are."""
