"""What pages look like in a browser: contrast, words, alignment, and the forest plot; `kinds` has a page of each kind."""
