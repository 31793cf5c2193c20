"""Recipes by what they promise: published ones by their papers (`papers`), records of the speedrun by its `rules`."""
