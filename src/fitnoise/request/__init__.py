"""The statements of users: tables, targets, questions, and the documents that hold them."""
