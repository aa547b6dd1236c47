"""Pairs of images that one encoder takes for alike and another tells apart, and how models answer about them."""
