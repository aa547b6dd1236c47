"""Which items of a pool to keep: one interface (`optotype.pipelines.selectors.selector`), one module a method."""
