"""Experimental: published or reconstructed methods that have not shown a gain on our data."""
