"""Experimental methods: methods from papers, some reconstructed by us, that gave no measured gain on our data."""
