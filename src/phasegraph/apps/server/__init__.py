"""Serve the passages of a folder to agents over MCP and to other programs over HTTP."""
