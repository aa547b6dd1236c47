"""Alignment probes that turn every (vision encoder, language model) pair into a model that answers questions.

A probe is a linear map from pooled image features to text states, fitted on one half of the image-caption pairs. It
then answers 4-option questions about the other half: which of these captions belongs to this image? The answers are a
real model x item score matrix with blind runs, made of nothing but the default project's own arrays.
"""
