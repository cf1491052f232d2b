"""What users say: tables, targets, questions, and the documents they are written in."""
