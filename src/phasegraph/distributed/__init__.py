"""An index from more passages than one process should read, to the bit the one that a single process builds."""
