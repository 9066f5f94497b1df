"""What the checks of a program's text say of the trainings of public repositories."""
