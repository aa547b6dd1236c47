"""What is computed: lazy, labelled operators over plain kernels, and one module per method."""
