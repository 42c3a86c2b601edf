"""Secrets at rest: the key file, sealing with AES-256-GCM, and the service key of the API."""
