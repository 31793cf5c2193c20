"""Attacks by what others bring: recipes, suites, runs, models and data. Each row of `attacks` is one, and is held."""
