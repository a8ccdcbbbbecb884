"""The five papers' examples, tables and figures as experiments that anyone can run: what is printed beside ours."""
