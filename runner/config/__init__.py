"""What a config may say: checks before anything heavy is imported, targets, permissions, code of others."""
