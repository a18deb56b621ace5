"""Programs over the library: the command line, the inspector, the server, and tracing."""
