"""Every table of the documentation, regenerated from the data with one command and no network."""
