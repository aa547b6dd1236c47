"""What may be done to rows before they are compared: steps, chains of them, and how they are fitted."""
