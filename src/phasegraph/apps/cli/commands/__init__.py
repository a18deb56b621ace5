"""The options and the help of each command; a command imports its work, the module of the same name, when it runs."""
