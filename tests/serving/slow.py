"""An embedding model that takes too long, by name for a command line."""

import time


def embed(query):
    time.sleep(30)
    return [0.0] * 26
