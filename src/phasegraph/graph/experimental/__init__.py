"""Experimental methods: published or reconstructed methods without a measured gain on our data."""
