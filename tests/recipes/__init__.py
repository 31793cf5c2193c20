"""Recipes that are measured by rules: the speedrun, whose records are checked by `rules`, and BabyLM."""
