"""What the documentation site has beside its pages: pictures, plots, a recorded terminal, a check."""
