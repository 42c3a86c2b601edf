"""Forager for agents, by the Model Context Protocol: tools with a budget, over stdio (`forager mcp`) or at `/mcp`."""
