"""An embedding model that answers nobody in time, by name for a command line."""

import time


def embed(query):
    time.sleep(600)
    return [0.0] * 26
