"""YAML options and recipes of the plugin."""
