"""Proxies: selection and health, tunnels through them, and checks."""
