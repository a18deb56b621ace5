"""A walk from a query: where it starts, what it prefers, how passages are scored and explained."""
