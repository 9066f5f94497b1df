"""What the text of a program tells: values that it is given, or computes, and that nothing reads."""
