"""The page of a ranking: scores against chance, warnings, neighbours, spectra, matched patches."""
