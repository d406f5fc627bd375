"""Exams: many questions, each solved and validated, graded and reported."""
