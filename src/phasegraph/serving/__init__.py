"""A folder's passages for programs elsewhere: over MCP, for agents, and over plain HTTP."""
