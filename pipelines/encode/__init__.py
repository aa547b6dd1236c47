"""Running models: images to patch features, captions to text states."""
