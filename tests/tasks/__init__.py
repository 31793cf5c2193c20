"""Tasks with folders of their own."""
