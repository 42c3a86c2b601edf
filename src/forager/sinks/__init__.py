"""Where changes go. Each sink takes batches of them by cursor, and must take the same one twice without harm."""
