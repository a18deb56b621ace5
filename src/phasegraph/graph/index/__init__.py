"""A graph whose passages can be added and deleted: the records of passages, a change log, and a graph with the log."""
