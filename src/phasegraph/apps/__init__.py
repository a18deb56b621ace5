"""Programs built on the library: the command line, the inspector, the server, and tracing."""
