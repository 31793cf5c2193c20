"""What a trained model says: labels, answers, filled masks; and its export as a Hugging Face folder."""
