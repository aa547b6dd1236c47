"""How well metrics foretell what encoders reach downstream: joined by name, with intervals, curves and costs."""
