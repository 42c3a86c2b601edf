"""Plain HTTP: one request, one complete answer, guarded and capped."""
