"""Images and names of emoji in one space that an alignment probe makes, and retrieval in it by language."""
