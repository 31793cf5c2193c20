"""Files exactly as public tools write them: what a user expects of each, and what the program reads or says."""
