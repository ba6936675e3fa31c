"""Parts of the golden-file maker for text."""
